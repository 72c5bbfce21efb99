"""Open vectors as people have them on disk: npy, safetensors, parquet, a faiss index, a buffer."""

import json
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from safetensors import SafetensorError, safe_open

from unstale.buffer import buffer
from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.migration.faiss_index import FaissVectors
from unstale.migration.parquet import ParquetVectors
from unstale.migration.settings import FILES, check_vectors
from unstale.migration.stale import CHUNK, NewIndex, StaleVectors
from unstale.migration.stores.address import is_store
from unstale.migration.stores.vectors import open_store

_LOG = logging.getLogger(__name__)
# The types of numbers, as safetensors names them.
_NUMBERS: dict[str, np.dtype[Any]] = {f"F{8 * n}": np.dtype(f"f{n}") for n in (2, 4, 8)}


@final
class ArrayVectors(StaleVectors):
    """A memory-mapped array: an npy file, or the tensor of that name in a safetensors file."""

    def __init__(self, path: Path, array: ndarray, tensor: str | None = None) -> None:
        self.path = path
        self.array = array
        self.tensor = tensor
        self.format = "npy" if tensor is None else "safetensors"
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

    def write(self, folder: Path, new: NewIndex) -> Path:
        """Write a header, and the numbers after it."""
        path, shape = folder / f"vectors{self.path.suffix}", (self.rows, new.dim)
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            if self.tensor is None:
                header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            else:
                file.write(_safetensors_header(self.tensor, self.dtype, shape))
            for _, vectors in new.vectors:
                file.write(np.ascontiguousarray(vectors, self.dtype).tobytes())
        return path


@final
class BufferVectors(StaleVectors):
    """A folder that `unstale embed` or `unstale train` wrote."""

    format = "buffer"

    def __init__(self, path: Path) -> None:
        manifest = buffer.read_manifest(path)
        self.path = path
        self.buffer = buffer.TargetBuffer.open_checked(path)
        self.rows, self.dim = len(self.buffer), self.buffer.dim
        self.dtype = np.dtype(manifest["dtype"])
        self.texts = manifest["fingerprint"].get("texts", "")

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield pieces of the shards."""
        for start, vectors in self.buffer.chunks(size):
            yield start, vectors.numpy()

    def write(self, folder: Path, new: NewIndex) -> Path:
        """Write a buffer, whose maker must say that it is corrected: it would pass for fresh."""
        path, dtype = folder / "vectors", self.dtype.name
        shards: list[dict[str, Any]] = []
        for _, vectors in new.vectors:
            name = f"shard-{len(shards):05}.safetensors"
            written = buffer.write_shard(path / name, torch.from_numpy(vectors), dtype)
            shards.append({"file": name, "rows": len(vectors), "sha256": written})
        manifest = {"format": buffer.FORMAT, "fingerprint": new.made_by, "dim": new.dim}
        buffer.write_manifest(path, manifest | {"dtype": dtype, "shards": shards})
        return path


def _open_npy(path: Path) -> ArrayVectors:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the header is a Python literal, which can be wrong in many ways
        raise InputError(f"{path} is not an npy file of numbers ({error})") from None
    _check_array(path, array.dtype, array.shape)
    return ArrayVectors(path, array)


def _open_safetensors(path: Path) -> ArrayVectors:
    try:
        with safe_open(path, "np") as stored:  # it holds the header against the size of the file
            names = sorted(stored.keys())
            name = "vectors" if "vectors" in names else names[0]
            entry = stored.get_slice(name)
            kind, shape = entry.get_dtype(), tuple(entry.get_shape())
    except (IndexError, OSError, SafetensorError) as error:
        raise InputError(f"{path} is not a safetensors file ({error})") from None
    others = ", ".join(other for other in names if other != name)
    if others and name != "vectors":
        rule = "which are the vectors? Name the tensor `vectors`"
        raise InputError(f"{path} holds {', '.join(names)}: {rule}")
    if kind not in _NUMBERS:
        raise InputError(f"{path}: expected {', '.join(_NUMBERS)} numbers, found {kind}")
    _check_array(path, _NUMBERS[kind], shape)
    if others:
        _LOG.warning("%s: only its tensor `vectors` is read and written, not %s", path, others)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start = json.loads(file.read(length))[name]["data_offsets"][0]
    array = np.memmap(path, _NUMBERS[kind], "r", offset=8 + length + start, shape=shape)
    return ArrayVectors(path, array, name)


def _safetensors_header(name: str, dtype: np.dtype[Any], shape: tuple[int, int]) -> bytes:
    """Make the header of a safetensors file with one tensor: its length, then JSON."""
    kind = next(kind for kind, known in _NUMBERS.items() if known == dtype)
    size = math.prod(shape) * dtype.itemsize
    entry = {"dtype": kind, "shape": list(shape), "data_offsets": [0, size]}
    text = json.dumps({name: entry}).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of eight
    return len(text).to_bytes(8, "little") + text


def _check_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or not all(shape):
        raise InputError(f"{path}: expected rows x dimensions, found the shape {shape}")
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise InputError(f"{path}: expected float16, float32 or float64, found {dtype}")


_OPENERS: tuple[Callable[[Path], StaleVectors], ...]
_OPENERS = (_open_npy, _open_safetensors, ParquetVectors, FaissVectors, FaissVectors)
FORMATS = dict(zip(FILES, _OPENERS, strict=True))


def open_vectors(vectors: Path | str) -> StaleVectors:
    """Open a file by its suffix, a buffer by its manifest, or a collection by its address.

    The form is checked here, not the values.
    """
    if is_store(str(vectors)):
        return open_store(str(vectors))
    path = Path(vectors)
    check_vectors(path)
    if path.is_dir():
        return BufferVectors(path)
    return FORMATS[path.suffix](path)
