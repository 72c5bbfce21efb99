"""Vectors as people have them on disk: npy, safetensors, parquet, a faiss index, a buffer.

A source is read by rows and by pieces, never whole (but for faiss, which knows only whole
indexes), and is never written to.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from unstale.buffer.buffer import MANIFEST, TargetBuffer, read_manifest
from unstale.errors import InputError

CHUNK = 16_384  # rows read at once
COLUMNS = ("vector", "embedding", "vectors", "embeddings")  # of a parquet file, in this order
_SAFETENSORS = {"F16": np.float16, "F32": np.float32, "F64": np.float64}


class Source(ABC):
    """Stale vectors on disk, by row."""

    format: str
    path: Path
    rows: int
    dim: int
    dtype: np.dtype[Any]

    @abstractmethod
    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield `(first row, float32 vectors)` over all rows."""

    @abstractmethod
    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows, as float32."""


@final
class ArraySource(Source):
    """A memory-mapped array: an npy file, or the tensor in a safetensors file."""

    def __init__(self, kind: str, path: Path, array: ndarray, name: str = "") -> None:
        self.format = kind
        self.path = path
        self.array = array
        self.name = name  # of the tensor, for safetensors
        self.rows, self.dim = array.shape
        self.dtype = array.dtype

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield pieces, each mapped on its own: pages of one large map would stay in memory."""
        for start in range(0, self.rows, size):
            piece = self.array[start : start + size]
            if isinstance(self.array, np.memmap) and self.array.flags.c_contiguous:
                offset = self.array.offset + start * self.dim * self.dtype.itemsize
                piece = np.memmap(self.path, self.dtype, "r", offset, piece.shape)
            yield start, np.array(piece, np.float32)

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Read single rows."""
        return np.asarray(self.array[rows], np.float32)


@final
class ParquetSource(Source):
    """A column of fixed-length lists of floats; other columns travel with the rows."""

    format = "parquet"

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            self.file = pq.ParquetFile(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{path} is not a parquet file ({error})") from None
        self.path = path
        schema = self.file.schema_arrow
        found = [c for c in COLUMNS if c in schema.names]
        if not found:
            wanted = " or ".join(COLUMNS)
            raise InputError(f"{path} has no column {wanted}; it has {', '.join(schema.names)}")
        self.column = found[0]
        kind = schema.field(self.column).type
        if not (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)) or not (
            pa.types.is_floating(kind.value_type)
        ):
            raise InputError(
                f"{path}: column {self.column!r} must hold lists of floats, not {kind}"
            )
        self.dtype = np.dtype(kind.value_type.to_pandas_dtype())
        self.rows = self.file.metadata.num_rows
        first = next(self.file.iter_batches(1, columns=[self.column]), None)
        if first is None or not len(first):
            raise InputError(f"{path} has no rows")
        self.dim = len(first.column(0)[0])

    def tables(self, size: int = CHUNK) -> Iterator[tuple[int, Any, Float[ndarray, "n d"]]]:
        """Yield `(first row, record batch with all columns, float32 vectors)`."""
        start = 0
        for batch in self.file.iter_batches(size):
            column = batch.column(self.column)
            lengths = column.value_lengths().fill_null(-1).to_numpy()
            if (lengths != self.dim).any():
                row = start + int((lengths != self.dim).argmax())
                width = lengths[row - start]
                rule = f"a vector of width {width}, not {self.dim} as in row 0"
                raise InputError(f"{self.path}, row {row}: {rule if width >= 0 else 'no vector'}")
            flat = column.flatten().to_numpy(zero_copy_only=False)
            yield start, batch, np.asarray(flat, np.float32).reshape(-1, self.dim)
            start += len(batch)

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield the vectors batch by batch."""
        for start, _, vectors in self.tables(size):
            yield start, vectors

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Read single rows, by one pass over the file."""
        found = np.zeros((len(rows), self.dim), np.float32)
        order = np.argsort(rows, kind="stable")
        for start, vectors in self.chunks():
            low, high = np.searchsorted(rows[order], [start, start + len(vectors)])
            here = order[low:high]
            found[here] = vectors[rows[here] - start]
        return found


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
        self.kind = type(faiss.downcast_index(self.index)).__name__
        self.inner = self.index
        self.ids: Int[ndarray, " n"] | None = None
        if isinstance(faiss.downcast_index(self.index), (faiss.IndexIDMap, faiss.IndexIDMap2)):
            self.inner = faiss.downcast_index(self.index).index
            self.ids = faiss.vector_to_array(faiss.downcast_index(self.index).id_map)
        inner = faiss.downcast_index(self.inner)
        if hasattr(inner, "make_direct_map"):
            inner.make_direct_map()
        self.rows, self.dim = int(self.index.ntotal), int(self.index.d)
        self.metric = int(self.index.metric_type)
        if not self.rows:
            raise InputError(f"{path}: the index is empty")
        try:
            self.inner.reconstruct(0)
        except RuntimeError:
            rule = "cannot return its vectors; a flat, IVF-flat or HNSW-flat index can"
            raise InputError(f"{path}: an index of type {self.kind} {rule}") from None

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield reconstructed vectors, in the order in which they were added."""
        for start in range(0, self.rows, size):
            yield start, self.inner.reconstruct_n(start, min(size, self.rows - start))

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Reconstruct single vectors."""
        return np.stack([self.inner.reconstruct(int(r)) for r in rows])


@final
class BufferSource(Source):
    """A folder that `unstale embed` or `unstale train` wrote."""

    format = "buffer"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)
        self.buffer = TargetBuffer.open(path)
        self.rows, self.dim = len(self.buffer), self.buffer.dim
        self.dtype = np.dtype(self.manifest["dtype"])

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield pieces of the shards."""
        for start, vectors in self.buffer.chunks(size):
            yield start, vectors.numpy()

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Read single rows."""
        return self.buffer[torch.from_numpy(np.asarray(rows, np.int64))].numpy()


def _open_npy(path: Path) -> Source:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the header is a Python literal, which can be wrong in many ways
        raise InputError(f"{path} is not an npy file of numbers ({error})") from None
    _check_array(path, array.dtype, array.shape)
    return ArraySource("npy", path, array)


def _open_safetensors(path: Path) -> Source:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            if not 2 <= length <= 100_000_000:
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(file.read(length))
            tensors = {k: v for k, v in header.items() if k != "__metadata__"}
            name = "vectors" if "vectors" in tensors else next(iter(tensors))
            entry = tensors[name]
            kind, shape, start = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"][0]
            if any(type(n) is not int or n < 0 for n in (*shape, start)):
                raise ValueError(f"a shape of {shape} at {start}")
            known = np.dtype(_SAFETENSORS.get(kind, np.int64))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a safetensors file ({error})") from None
        except (RecursionError, StopIteration) as error:
            raise InputError(f"{path} is not a safetensors file ({error})") from None
    if len(tensors) > 1 and name != "vectors":
        names = ", ".join(sorted(tensors))
        raise InputError(f"{path} holds {names}: which are the vectors? Name the tensor `vectors`")
    _check_array(path, known, shape)
    offset = 8 + length + start
    size = offset + math.prod(shape) * known.itemsize
    if path.stat().st_size < size:
        raise InputError(f"{path} has {path.stat().st_size} bytes, its header says {size}")
    array = np.memmap(path, _SAFETENSORS[kind], "r", offset=offset, shape=shape)
    return ArraySource("safetensors", path, array, name)


def _check_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or not all(shape):
        raise InputError(f"{path}: expected rows x dimensions, found the shape {shape}")
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise InputError(f"{path}: expected float16, float32 or float64, found {dtype}")


FORMATS: dict[str, Callable[[Path], Source]] = {
    ".npy": _open_npy,
    ".safetensors": _open_safetensors,
    ".parquet": ParquetSource,
    ".faiss": FaissSource,
    ".index": FaissSource,
}


def open_vectors(path: Path) -> Source:
    """Open vectors by their suffix, or a buffer by its manifest; check form, not values."""
    if path.is_dir():
        if not (path / MANIFEST).exists():
            raise InputError(f"{path} is a folder without {MANIFEST}: not an unstale buffer")
        return BufferSource(path)
    if path.suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise InputError(f"{path}: unknown format {path.suffix!r}; known: {known}, or a buffer")
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    return FORMATS[path.suffix](path)


def check_values(source: Source) -> None:
    """Read all vectors once, and refuse NaN, infinity and zero vectors by row."""
    for start, vectors in source.chunks():
        norms = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
        bad = ~np.isfinite(norms) | (norms == 0)
        if bad.any():
            row = int(bad.argmax())
            what = "a zero vector" if norms[row] == 0 else "NaN or infinity"
            raise InputError(f"{source.path}, row {start + row}: {what}")


def load_faiss() -> Any:  # noqa: ANN401 - the module, which has no types
    """Import faiss, or say which extra brings it."""
    try:
        import faiss
    except ImportError:
        raise InputError("a faiss index needs faiss: pip install 'unstale[faiss]'") from None
    return faiss
