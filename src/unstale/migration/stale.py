"""What must old vectors be able to do, whatever file they are in, and are they fit to migrate?"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from tqdm import tqdm

from unstale.data.dataset import RetrievalDataset, Texts
from unstale.errors import InputError

CHUNK = 4096  # rows read, corrected and scored together, whatever the number of processes
UNIT = 1e-3  # from length one, at most, of a vector that counts as of length one
Arrays = Iterable[tuple[int, Float[ndarray, "n e"]]]  # (first row, vectors), in order


class NewIndex(NamedTuple):
    """What is written: corrected vectors piece by piece, and which of them are fresh."""

    vectors: Arrays  # consumed once
    dim: int
    fresh: Bool[ndarray, " rows"]  # whether the new encoder made the vector of a row
    made_by: dict[str, Any]  # what to record as the maker of a buffer


class StaleVectors(ABC):
    """The old encoder's vectors on disk, read by row and by pieces, and never written to."""

    format: str
    path: Path
    rows: int
    dim: int
    dtype: np.dtype[Any]
    metric = "inner product"  # by which an index of the vectors ranks
    texts: str | None = None  # the digest of the texts that they were made of, where it is known
    ids: Texts | None = None  # of the rows, where they are known

    @abstractmethod
    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield `(first row, float32 vectors)` over all rows."""

    @abstractmethod
    def write(self, folder: Path, new: NewIndex) -> Path:
        """Write corrected vectors of all rows, in the format and number type of these.

        What is written is called `vectors` in the folder, with a suffix.

        Returns:
            The file or folder that was written.
        """

    def resume_at(self, folder: Path, identity: str) -> int:
        """Return from which row on to write, where an interrupted `write` of the same left some."""
        return 0

    def chunks_from(self, first: int) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield the pieces of `chunks` that hold the row `first` or a later one."""
        for start, vectors in self.chunks():
            if start + len(vectors) > first:
                yield start, vectors

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows, by one pass over all."""
        found = np.zeros((len(rows), self.dim), np.float32)
        for start, vectors in self.chunks():
            here = (rows >= start) & (rows < start + len(vectors))
            found[here] = vectors[rows[here] - start]
        return found


def check_values(source: StaleVectors) -> bool:
    """Read all vectors once, and refuse NaN, infinity and zero vectors by row.

    Returns:
        Whether all vectors have length one.
    """
    unit = True
    with tqdm(total=source.rows, desc="checking", unit="target", delay=1, leave=False) as bar:
        for start, vectors in source.chunks():
            norms = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
            bad = ~np.isfinite(norms) | (norms == 0)
            if bad.any():
                row = int(bad.argmax())
                what = "a zero vector" if norms[row] == 0 else "NaN or infinity"
                raise InputError(f"{source.path}, row {start + row}: {what}")
            unit = unit and bool((np.abs(norms - 1) < UNIT).all())
            bar.update(len(vectors))
    return unit


def check_texts(source: StaleVectors, dataset: RetrievalDataset) -> None:
    """Refuse vectors that are not those of a dataset's targets, row by row."""
    if source.rows != len(dataset.targets):
        counts = f"{source.rows} vectors, {dataset.name} {len(dataset.targets)} targets"
        hint = "rows that were skipped or repeated are no targets; give each vector's id with --ids"
        raise InputError(f"{source.path} has {counts}: row by row they must be the same ({hint})")
    if source.texts not in (None, dataset.targets.digest):
        raise InputError(f"the buffer {source.path} was made of other texts than {dataset.name}")


def check_ranking(source: StaleVectors, *, unit: bool) -> None:
    """Refuse an index that would rank new vectors by another rule than their encoder does.

    Vectors of length one have the same order by inner product and by L2 distance.
    """
    if source.metric not in ("inner product", "L2 distance" if unit else "inner product"):
        rule = "not by inner product, as the corrected vectors must be; save them as .npy"
        raise InputError(f"{source.path} ranks by {source.metric}, {rule}")


def files_of(path: Path) -> list[Path]:
    """List the files that vectors are read from: one, those of a buffer, or none of a database."""
    if path.is_dir():
        return sorted(p for p in path.iterdir() if p.is_file())
    return [path] if path.is_file() else []


def file_states(path: Path) -> list[tuple[str, int, int]]:
    """Return the name, the size and the time of the last change of each such file."""
    seen = [(file.name, file.stat()) for file in files_of(path)]
    return [(name, state.st_size, state.st_mtime_ns) for name, state in seen]
