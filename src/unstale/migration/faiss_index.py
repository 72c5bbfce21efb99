"""Vectors in a faiss index, which faiss can load only whole."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.migration.stale import CHUNK, NewIndex, StaleVectors

_LOG = logging.getLogger(__name__)
_METRICS = {0: "inner product", 1: "L2 distance"}


@final
class FaissVectors(StaleVectors):
    """A faiss index that can give its vectors back."""

    format = "faiss"
    dtype = np.dtype(np.float32)

    def __init__(self, path: Path) -> None:
        try:
            import faiss
        except ImportError:
            raise InputError("a faiss index needs faiss: pip install 'unstale[faiss]'") from None
        self.path, self.faiss = path, faiss
        try:
            self.index = faiss.read_index(str(path))
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise InputError(f"{path} is not a faiss index ({reason})") from None
        self.inner = faiss.downcast_index(self.index)
        self.numbers: Int[ndarray, " n"] | None = None
        if isinstance(self.inner, (faiss.IndexIDMap, faiss.IndexIDMap2)):
            self.numbers = faiss.vector_to_array(self.inner.id_map)
            self.inner = faiss.downcast_index(self.inner.index)
        self.rows, self.dim = int(self.index.ntotal), int(self.index.d)
        number = int(self.index.metric_type)
        self.metric = _METRICS.get(number, f"the metric {number} of faiss")
        if not self.rows:
            raise InputError(f"{path}: the index is empty")
        self._check_kind(type(self.inner).__name__)

    def _check_kind(self, kind: str) -> None:
        rule = "cannot return its vectors; a flat, IVF-flat or HNSW-flat index can"
        if "FastScan" in kind:  # to ask it would end the process
            raise InputError(f"{self.path}: an index of type {kind} {rule}")
        try:
            if hasattr(self.inner, "make_direct_map"):
                self.inner.make_direct_map()
        except RuntimeError:
            ids = f"ids other than 0 to {self.rows - 1}: which vector is of which text?"
            raise InputError(f"{self.path}: an index of type {kind} with {ids}") from None
        try:
            self.inner.reconstruct(0)
        except RuntimeError:
            raise InputError(f"{self.path}: an index of type {kind} {rule}") from None
        if not kind.startswith("IndexFlat"):
            rule = "the new index will be flat: its structure is that of the old vectors"
            _LOG.warning("%s is an %s; %s", self.path, kind, rule)
        if "Flat" not in kind:
            rule = "the corrector starts from what is left of them"
            _LOG.warning("an %s keeps its vectors rounded: %s", kind, rule)

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield reconstructed vectors, in the order in which they were added."""
        for start in range(0, self.rows, size):
            yield start, self.inner.reconstruct_n(start, min(size, self.rows - start))

    def write(self, folder: Path, new: NewIndex) -> Path:
        """Write a flat index of the same metric and ids: other structures fit old vectors only."""
        index: Any = self.faiss.IndexFlat(new.dim, self.index.metric_type)
        if self.numbers is not None:
            index = self.faiss.IndexIDMap2(index)
        for start, vectors in new.vectors:
            vectors = np.ascontiguousarray(vectors, np.float32)
            if self.numbers is None:
                index.add(vectors)
            else:
                index.add_with_ids(vectors, self.numbers[start : start + len(vectors)])
        path = folder / f"vectors{self.path.suffix}"
        with atomic_file(path) as temporary:
            self.faiss.write_index(index, str(temporary))
        return path
