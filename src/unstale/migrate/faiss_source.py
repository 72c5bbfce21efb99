"""Vectors in a faiss index, which faiss can load only whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from unstale.errors import InputError
from unstale.migrate.source import CHUNK, Source


def load_faiss() -> Any:  # noqa: ANN401 - the module, which has no types
    """Import faiss, or say which extra brings it."""
    try:
        import faiss
    except ImportError:
        raise InputError("a faiss index needs faiss: pip install 'unstale[faiss]'") from None
    return faiss


@final
class FaissSource(Source):
    """A faiss index that can give its vectors back."""

    format = "faiss"
    dtype = np.dtype(np.float32)

    def __init__(self, path: Path) -> None:
        faiss = load_faiss()
        self.path = path
        try:
            self.index = faiss.read_index(str(path))
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise InputError(f"{path} is not a faiss index ({reason})") from None
        self.inner = faiss.downcast_index(self.index)
        self.ids: Int[ndarray, " n"] | None = None
        if isinstance(self.inner, (faiss.IndexIDMap, faiss.IndexIDMap2)):
            self.ids = faiss.vector_to_array(self.inner.id_map)
            self.inner = faiss.downcast_index(self.inner.index)
        self.kind = type(self.inner).__name__
        self.rows, self.dim = int(self.index.ntotal), int(self.index.d)
        self.metric = int(self.index.metric_type)
        if not self.rows:
            raise InputError(f"{path}: the index is empty")
        rule = "cannot return its vectors; a flat, IVF-flat or HNSW-flat index can"
        if "FastScan" in self.kind:  # to ask it would end the process
            raise InputError(f"{path}: an index of type {self.kind} {rule}")
        if hasattr(self.inner, "make_direct_map"):
            try:
                self.inner.make_direct_map()
            except RuntimeError:
                ids = f"ids other than 0 to {self.rows - 1}: which vector is of which text?"
                raise InputError(f"{path}: an index of type {self.kind} with {ids}") from None
        try:
            self.inner.reconstruct(0)
        except RuntimeError:
            raise InputError(f"{path}: an index of type {self.kind} {rule}") from None

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield reconstructed vectors, in the order in which they were added."""
        for start in range(0, self.rows, size):
            yield start, self.inner.reconstruct_n(start, min(size, self.rows - start))

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Reconstruct single vectors."""
        return np.stack([self.inner.reconstruct(int(r)) for r in rows])
