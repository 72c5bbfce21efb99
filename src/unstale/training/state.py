"""What a checkpoint holds beside the encoders: the miner's weights, its search, and the record."""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from unstale.budget import read_object
from unstale.distributed import rank, world
from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.miners.miner import Freshness, Miner
from unstale.training.identity import check_identity
from unstale.training.record import Counters, RunRecord

_LOG = logging.getLogger(__name__)
MINER_WEIGHTS = "miner.safetensors"
MINER_STATE = "miner.json"
_PIECE = 65_536  # rows read at once
_SEARCH = "search:"  # before the names of a search's tensors


def save_miner(folder: Path, miner: Miner, record: RunRecord) -> None:
    """Write the miner's weights, its search's state and the record into a checkpoint.

    Of several processes each writes the rows that it holds, and process 0 the rest.
    """
    tensors = {k: v.contiguous() for k, v in miner.state_dict().items()}
    own = {f"{_SEARCH}{k}": v for s in miner.searches() for k, v in s.state_dict().items()}
    by_row = miner.row_tensors()
    own |= {name: rows.tensor for name, rows in by_row.items()}
    if world() > 1:
        first = next((rows.first for rows in by_row.values()), 0)
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
    miner.load_state_dict(_load(folder / MINER_WEIGHTS, lambda name: name in miner.state_dict()))
    by_row = miner.row_tensors()  # its weights tell whether it has some already
    for name, (rows, first) in by_row.items():
        _read_rows(folder, name, first, rows)
    tensors = _load(folder / MINER_WEIGHTS, _of_search)
    if world() > 1 and (folder / _own_file()).exists():
        tensors |= _load(folder / _own_file(), _of_search)
    known = {k.removeprefix(_SEARCH): v for k, v in tensors.items()}
    for search in miner.searches():
        if not search.state_dict():
            continue
        if known or (world() == 1 and not list(folder.glob("miner-*-of-*"))):
            try:
                search.load_state_dict(known)
            except (KeyError, RuntimeError, ValueError) as error:
                rule = "the state of its search is that of another version of unstale"
                way = "resume with that one, or start again"
                raise InputError(f"{folder}: {rule} ({error}); {way}") from error
        else:
            _LOG.warning("another number of processes: the search begins a new snapshot")
    record.counters = Counters(**state["counters"])
    record.freshness = [Freshness(**f) for f in state["freshness"]]
    record.curve = state["curve"]
    record.looks = state.get("looks", [])
    record.search = state.get("search", [])
    record.parts = state.get("parts", {})
    record.clock.resume(state.get("clock", {}))


def _own_file() -> str:
    return f"miner-{rank():05}-of-{world():05}.safetensors" if world() > 1 else MINER_WEIGHTS


def _load(path: Path, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """Read some tensors of a file."""
    with safe_open(path, "pt") as file:
        return {k: file.get_tensor(k) for k in filter(wanted, file.keys())}


def _of_search(name: str) -> bool:
    return name.startswith(_SEARCH)


def _read_rows(folder: Path, name: str, start: int, into: Tensor) -> None:
    """Read some rows of a tensor that any number of processes wrote, into their place."""
    stop, read = start + len(into), 0
    for path in sorted(folder.glob("miner*.safetensors")):
        with safe_open(path, "pt") as file:
            if name not in file.keys():  # noqa: SIM118 - it is no dict
                continue
            first = int((file.metadata() or {}).get("first", 0))
            stored = file.get_slice(name)
            last = first + stored.get_shape()[0]
            for begin in range(max(start, first), min(stop, last), _PIECE):
                end = min(stop, last, begin + _PIECE)
                into[begin - start : end - start] = stored[begin - first : end - first].to(into)
                read += end - begin
    if read != len(into):
        raise InputError(f"{folder} holds {read} of the rows {start} to {stop} of {name}")


def search_readings(miner: Miner) -> dict[str, float]:
    """Return what a search that is not exact finds of itself: its overlap, what it reranks."""
    return {name: x for search in miner.searches() for name, x in search.readings.items()}
