"""What a run remembers of itself beside its weights: cost, freshness, curve; in checkpoints too."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from safetensors.torch import load_file, save_file

from unstale.miners.miner import Dropped, Miner
from unstale.training.meter import Freshness

MINER_WEIGHTS = "miner.safetensors"
MINER_STATE = "miner.json"
_SEARCH = "search:"  # before the names of a search's tensors


@dataclass
class Counters:
    """What a run has cost so far."""

    targets_trained: int = 0  # encoded with gradients, for the softmax
    targets_reembedded: int = 0  # encoded to refresh the buffer
    targets_sampled: int = 0  # encoded as a sample, to fit something
    targets_probed: int = 0  # encoded by the meter
    mining_seconds: float = 0.0
    training_seconds: float = 0.0
    candidates_considered: int = 0  # before filters, if there are any
    candidates_dropped: dict[str, int] = field(default_factory=dict)  # by each filter
    negatives_missing: int = 0  # for which too few candidates were left

    def count_dropped(self, dropped: Dropped) -> None:
        """Add what filters dropped on a step."""
        self.candidates_considered += dropped.considered
        self.negatives_missing += dropped.missing
        for name, count in dropped.counts.items():
            self.candidates_dropped[name] = self.candidates_dropped.get(name, 0) + count


@final
@dataclass
class Record:
    """How far a run is, what it cost, and what was measured on the way."""

    step: int = 0  # completed optimizer steps
    counters: Counters = field(default_factory=Counters)
    freshness: list[Freshness] = field(default_factory=list)
    curve: list[dict[str, float]] = field(default_factory=list)  # step, seconds, metrics
    parts: dict[str, float] = field(default_factory=dict)  # what an algorithm counts besides


def save_miner(folder: Path, miner: Miner, record: Record) -> None:
    """Write the miner's weights, its search's state and the record into a checkpoint."""
    tensors = dict(miner.state_dict())
    for search in _searches(miner):
        tensors |= {f"{_SEARCH}{k}": v for k, v in search.state_dict().items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / MINER_WEIGHTS)
    (folder / MINER_STATE).write_text(json.dumps(asdict(record)), "utf-8")


def load_miner(folder: Path, miner: Miner, record: Record) -> None:
    """Bring miner and record back to where a checkpoint left them."""
    tensors = load_file(folder / MINER_WEIGHTS)
    own = {k: tensors.pop(k) for k in list(tensors) if not k.startswith(_SEARCH)}
    miner.load_state_dict(own)
    for search in _searches(miner):
        search.load_state_dict({k.removeprefix(_SEARCH): v for k, v in tensors.items()})
    state = json.loads((folder / MINER_STATE).read_text("utf-8"))
    record.counters = Counters(**state["counters"])
    record.freshness = [Freshness(**f) for f in state["freshness"]]
    record.curve = state["curve"]
    record.parts = state.get("parts", {})


def _searches(miner: Miner) -> list[Any]:
    """List the searches that remember something: a snapshot, its pace."""
    found = [getattr(m, "search", None) for m in miner.modules()]
    return [search for search in found if hasattr(search, "state_dict")]
