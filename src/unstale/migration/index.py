"""What is the new index made of? Corrected vectors, and fresh ones where they are known."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from unstale.buffer.stored import Stored
from unstale.data.dataset import Texts
from unstale.encoders.load import hash_weights
from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.migration.stale import NewIndex, StaleVectors
from unstale.settings import Precision

Chunks = Iterable[tuple[int, Float[Tensor, "_ e"]]]  # (first row, vectors), in order


class Known(NamedTuple):
    """The rows whose fresh vectors the index holds."""

    rows: Int[Tensor, " n"]
    fresh: Float[Tensor, "n e"]


def index_chunks(
    source: StaleVectors,
    corrector: nn.Module,
    known: Known,
    why: str = "correcting",
    first: int = 0,
) -> Iterator[tuple[int, Float[Tensor, "m e"]]]:
    """Yield the new index by pieces, `(first row, vectors)`.

    Memory is one piece and its hidden layer, whatever the number of rows. A bar says why, if it
    takes more than a second. Pieces that end before the row `first` are left out.
    """
    with tqdm(total=source.rows - first, desc=why, unit="target", delay=1, leave=False) as bar:
        for start, stale in source.chunks_from(first):
            with torch.no_grad():
                corrected = corrector(torch.from_numpy(stale))
            here = ((known.rows >= start) & (known.rows < start + len(stale))).nonzero()[:, 0]
            corrected[known.rows[here] - start] = known.fresh[here]
            if source.dtype.name in ("float16", "int8"):  # as it will be written
                stored = Stored.of(corrected, cast("Precision", source.dtype.name))
                corrected = stored.between(0, len(corrected))
            if not (finite := torch.isfinite(corrected).all(dim=1)).all():
                row = start + int(finite.int().argmin())
                raise InputError(f"the corrected vector of row {row} has NaN or infinity")
            bar.update(len(stale))
            yield start, corrected


def write_index(
    source: StaleVectors, corrector: nn.Module, known: Known, folder: Path, made_by: dict[str, Any]
) -> tuple[Path, float]:
    """Correct everything from disk to disk; return where, and the seconds it took."""
    began = time.perf_counter()
    # So that it is not taken for fresh:
    made_by = made_by | {"corrected": hash_weights(corrector.state_dict())}
    pieces = index_chunks(source, corrector, known, first=source.written())
    arrays = ((start, vectors.numpy()) for start, vectors in pieces)
    fresh = np.zeros(source.rows, np.bool_)
    fresh[known.rows.numpy()] = True
    path = source.write(folder, NewIndex(arrays, known.fresh.shape[1], fresh, made_by))
    return path, time.perf_counter() - began


def write_rows(folder: Path, ids: Texts, known: Known) -> Path:
    """Write `rows.parquet`: for each row of the new index its id, and whether it is fresh."""
    fresh = np.zeros(len(ids), np.bool_)
    fresh[known.rows.numpy()] = True
    path = folder / "rows.parquet"
    with atomic_file(path) as temporary:
        pq.write_table(pa.table({"id": list(ids), "is_fresh": fresh}), temporary)
    return path
