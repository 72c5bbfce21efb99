"""Vectors as people have them on disk: npy, safetensors, parquet, a faiss index, a buffer.

A source is read by rows and by pieces, never whole (but for faiss, which knows only whole
indexes), and is never written to.
"""

import json
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from tqdm import tqdm

from unstale.buffer.buffer import MANIFEST, TargetBuffer, read_manifest
from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError
from unstale.migrate.faiss_source import FaissSource
from unstale.migrate.parquet_source import ParquetSource
from unstale.migrate.source import CHUNK, Source

_LOG = logging.getLogger(__name__)
_SAFETENSORS = {"F16": np.float16, "F32": np.float32, "F64": np.float64}


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
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a safetensors file ({error})") from None
        except (RecursionError, StopIteration) as error:
            raise InputError(f"{path} is not a safetensors file ({error})") from None
    if len(tensors) > 1 and name != "vectors":
        names = ", ".join(sorted(tensors))
        raise InputError(f"{path} holds {names}: which are the vectors? Name the tensor `vectors`")
    if kind not in _SAFETENSORS:
        raise InputError(f"{path}: expected {', '.join(_SAFETENSORS)} numbers, found {kind}")
    _check_array(path, np.dtype(_SAFETENSORS[kind]), shape)
    if len(tensors) > 1:
        others = ", ".join(sorted(tensors.keys() - {name}))
        _LOG.warning("%s: only its tensor `vectors` is read and written, not %s", path, others)
    offset = 8 + length + start
    size = offset + math.prod(shape) * np.dtype(_SAFETENSORS[kind]).itemsize
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
    with tqdm(total=source.rows, desc="checking", unit="target", delay=1, leave=False) as bar:
        for start, vectors in source.chunks():
            norms = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
            bad = ~np.isfinite(norms) | (norms == 0)
            if bad.any():
                row = int(bad.argmax())
                what = "a zero vector" if norms[row] == 0 else "NaN or infinity"
                raise InputError(f"{source.path}, row {start + row}: {what}")
            bar.update(len(vectors))


def check_texts(source: Source, dataset: RetrievalDataset) -> None:
    """Refuse vectors that are not of a dataset's targets, row by row."""
    if source.rows != len(dataset.targets):
        counts = f"{source.rows} vectors, {dataset.name} {len(dataset.targets)} targets"
        raise InputError(f"{source.path} has {counts}: row by row they must be the same")
    if isinstance(source, BufferSource):
        made_of = source.manifest["fingerprint"].get("texts")
        if made_of != dataset.targets.digest:
            raise InputError(
                f"the buffer {source.path} was made of other texts than {dataset.name}"
            )
