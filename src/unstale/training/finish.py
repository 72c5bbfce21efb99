"""What a run leaves: its weights, and the results that Algorithms 1 and 2 have in common."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer

from unstale.distributed import rank, world
from unstale.encoders.embed import is_cosine
from unstale.files import atomic_file, atomic_folder
from unstale.miners.miner import Miner
from unstale.results import CORRECTOR
from unstale.training.prepare import Prepared
from unstale.training.record import RunRecord
from unstale.training.settings import Checked


def save_model(output: Path, model: SentenceTransformer) -> None:
    """Write the encoders as a plain folder, in the first process."""
    if rank() == 0:
        with atomic_folder(output / "model") as folder:
            model.save_pretrained(str(folder))


def save_corrector(output: Path, model: SentenceTransformer, miner: Miner) -> None:
    """Write what the miner learned, if anything: it goes with the last weights of the encoders."""
    weights = {k: v.detach().contiguous() for k, v in miner.named_parameters()}
    if rank() == 0 and weights:
        with atomic_file(output / CORRECTOR) as file:
            save_file(weights, file, metadata={"unit": str(is_cosine(model))})


def shared_results(
    checked: Checked[Any], prepared: Prepared, record: RunRecord, steps: int
) -> dict[str, Any]:
    """Return a run's counters, seconds and readings after its steps, as `RunResult` names them."""
    settings, counters = checked.settings, asdict(record.counters)
    parts = ("mining", "metering", "starting", "training")
    seconds = {part: counters.pop(f"{part}_seconds") for part in parts}
    clock = prepared.clock.read()
    clock["embedding"] = clock.get("embedding", 0.0) + counters.pop("embedding_seconds")
    return counters | {
        "identity": dict(record.identity),
        "strategy": settings.strategy,
        "seed": settings.seed,
        "steps": steps,
        "split": settings.eval_split.partition(",")[0].strip(),
        "processes": world(),
        "search": prepared.search.mode if prepared.search else None,
        "targets_embedded": prepared.embedded + counters.pop("targets_embedded"),
        "seconds": {**clock, **seconds},
        "steps_per_second": steps / seconds["training"],
        "truncated_targets": prepared.tokens.truncated,
        "freshness": [asdict(reading) for reading in record.freshness],
        "searched": record.search,
        "curve": record.curve,
    }
