"""Many trainings in one folder: each is a cell, and a finished one survives an interruption."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, final
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from sentence_transformers import SentenceTransformer

from unstale.budget import read_object
from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import RetrievalDataset
from unstale.distributed import barrier, exchange, first_alone, on_first, rank
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.files import write_json
from unstale.integrity import inside, lost_files
from unstale.results import RunResult
from unstale.settings import MiningSettings
from unstale.shown import say
from unstale.training.encode import as_trained
from unstale.training.identity import Identity, check_identity
from unstale.written import remove_written

_LOG = logging.getLogger(__name__)
CELL = "cell.json"  # written last: a cell that has it is finished
_TIMED = "seconds.json"


@final
@dataclass(frozen=True)
class Cell:
    """One training: where it goes, what it is called, and how it is done, anew or resumed."""

    folder: Path
    name: str
    train: Callable[[Path, bool], RunResult]  # of its folder, resumed or not
    identity: Identity = field(default_factory=dict)  # what a finished one must be made of


class Finished(NamedTuple):
    """What a cell left: its entry of results.json, and every metric of every query."""

    entry: RunResult
    values: dict[str, Float[ndarray, " q"]]


def run_cells(cells: Sequence[Cell], *, keep_models: bool = True) -> Iterator[Finished]:
    """Train the cells that are not finished, and yield what each of all of them left."""
    for i, cell in enumerate(cells, 1):
        done = _finished(cell)
        if exchange(done is None)[0]:  # as process 0 found it
            say(f"[{i}/{len(cells)}] {cell.name}", flush=True)
            result = cell.train(cell.folder, on_first((cell.folder / "checkpoints").exists))
            if rank() == 0:
                write_json(cell.folder / CELL, result.to_json())
            barrier()
            done = _finished(cell)
        if not keep_models and rank() == 0:
            remove_written(cell.folder / "model")
        assert done is not None
        yield done


def _finished(cell: Cell) -> Finished | None:
    """Read what a finished cell left, if it is one; refuse what was made of something else."""
    path = cell.folder / CELL
    if not path.exists():
        return None
    entry = RunResult.from_json(read_object(path), str(path))
    if cell.identity:
        check_identity(cell.folder, entry.identity or {}, cell.identity)
    values = inside(cell.folder, f"{entry.split}.npz", path)
    if lost := lost_files(cell.folder, [values.name]):
        _LOG.warning("%s lacks %s: the cell is trained again", cell.folder, lost[0])
        return None
    try:
        with np.load(values, allow_pickle=False) as stored:
            return Finished(entry, dict(stored))
    except (BadZipFile, EOFError, OSError, ValueError) as error:
        raise InputError(f"{values} is damaged ({error}); delete it, and resume") from None


def embed_once(
    dataset: RetrievalDataset, model: SentenceTransformer, folder: Path, settings: MiningSettings
) -> float | None:
    """Embed the corpus for all cells that start alike; return the seconds that took, if known."""
    with first_alone():
        tokens = target_tokens(model, dataset, progress=rank() == 0)
    began = time.perf_counter()
    made_by = fingerprint(model, dataset.targets)
    progress = rank() == 0
    dtype = settings.dtype
    with as_trained(settings.trainer, model.device):
        _, embedded = embed_corpus(model, tokens, folder, made_by, dtype=dtype, progress=progress)
    if embedded and rank() == 0:
        seconds = time.perf_counter() - began
        say(f"{embedded:,} targets embedded in {seconds:.0f} s, once for all")
        # If it was interrupted this call did only a part.
        write_json(folder / _TIMED, {"seconds": seconds * len(dataset.targets) / embedded})
    barrier()
    timed = folder / _TIMED
    return json.loads(timed.read_text("utf-8"))["seconds"] if timed.exists() else None
