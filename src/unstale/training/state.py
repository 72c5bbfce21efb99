"""What a checkpoint holds beside the encoders: the miner's weights, its search, and the record."""

import json
import logging
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from unstale.distributed import rank, world
from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.integrity import read_object
from unstale.miners.miner import Freshness, Miner
from unstale.training.identity import check_identity
from unstale.training.record import Counters, RunRecord

_LOG = logging.getLogger(__name__)
MINER_WEIGHTS = "miner.safetensors"
MINER_STATE = "miner.json"
_SEARCH = "search:"  # before the names of a search's tensors


def save_miner(folder: Path, miner: Miner, record: RunRecord) -> None:
    """Write the miner's weights, its search's state and the record into a checkpoint.

    Of several processes each writes the rows that it holds, and process 0 the rest.
    """
    tensors = {k: v.contiguous() for k, v in miner.state_dict().items()}
    search = {f"{_SEARCH}{k}": v for s in miner.searches() for k, v in s.state_dict().items()}
    by_row = miner.row_tensors()
    own = search | {k: tensors.pop(k) for k in by_row if world() > 1}
    if world() > 1:
        first = next(iter(by_row.values()), 0)
        save_file(own, folder / _own_file(), metadata={"first": str(first)})
        own = {}
    if rank() == 0:
        save_file(tensors | own, folder / MINER_WEIGHTS)
        state = asdict(record) | {"clock": record.clock.read()}
        with atomic_file(folder / MINER_STATE) as temporary:  # last: it says that all is there
            temporary.write_text(json.dumps(state), "utf-8")


def load_miner(folder: Path, miner: Miner, record: RunRecord) -> None:
    """Bring miner and record back to where a checkpoint left them, if it is of the same run.

    It may have been written by another number of processes.
    """
    state = read_object(folder / MINER_STATE)
    check_identity(folder, state.get("identity") or {}, record.identity)
    tensors = load_file(folder / MINER_WEIGHTS)
    current = miner.state_dict()
    by_row = miner.row_tensors().items()
    rows = {k: _rows(folder, k, first, first + len(current[k])) for k, first in by_row}
    own = {k: v for k, v in tensors.items() if not k.startswith(_SEARCH)}
    miner.load_state_dict(own | rows)
    if (folder / _own_file()).exists():
        tensors |= load_file(folder / _own_file())
    known = {k.removeprefix(_SEARCH): v for k, v in tensors.items() if k.startswith(_SEARCH)}
    for search in miner.searches():
        if not search.state_dict():
            continue
        if known or (world() == 1 and not list(folder.glob("miner-*-of-*"))):
            try:
                search.load_state_dict(known)
            except (KeyError, RuntimeError, ValueError):
                rule = "the state of its search is that of another version of unstale"
                raise InputError(f"{folder}: {rule}; go on with that one, or start anew") from None
        else:
            _LOG.warning("another number of processes: the search begins a new snapshot")
    record.counters = Counters(**state["counters"])
    record.freshness = [Freshness(**f) for f in state["freshness"]]
    record.curve = state["curve"]
    record.search = state.get("search", [])
    record.parts = state.get("parts", {})
    record.clock.resume(state.get("clock", {}))


def _own_file() -> str:
    return f"miner-{rank():05}-of-{world():05}.safetensors" if world() > 1 else MINER_WEIGHTS


def _rows(folder: Path, name: str, start: int, stop: int) -> Tensor:
    """Read some rows of a tensor that any number of processes wrote."""
    found: list[tuple[int, Tensor]] = []
    for path in sorted(folder.glob("miner*.safetensors")):
        with safe_open(path, "pt") as file:
            if name not in file.keys():  # noqa: SIM118 - it is no dict
                continue
            first = int((file.metadata() or {}).get("first", 0))
            stored = file.get_slice(name)
            last = first + stored.get_shape()[0]
            begin, end = max(start, first), min(stop, last)
            if begin < end:
                found.append((begin, stored[begin - first : end - first]))
    whole = torch.cat([rows for _, rows in sorted(found, key=lambda pair: pair[0])])
    if len(whole) != stop - start:
        raise InputError(f"{folder} holds {len(whole)} of the rows {start} to {stop} of {name}")
    return whole


def search_readings(miner: Miner) -> dict[str, float]:
    """Return what a search that is not exact finds of itself: its overlap, what it reranks."""
    return {name: x for search in miner.searches() for name, x in search.readings.items()}
