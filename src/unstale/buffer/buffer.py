"""The buffer B: one stale embedding for every target, by row number."""

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast, final

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors.torch import save_file
from torch import Tensor

from unstale.budget import read_object
from unstale.buffer.fingerprint import Fingerprint, differences
from unstale.buffer.stored import DTYPES, Chunks, Stored
from unstale.errors import InputError
from unstale.files import atomic_file, write_json
from unstale.integrity import BUFFER, check_manifest, digest, inside, sha256
from unstale.settings import Precision

MANIFEST = BUFFER
FORMAT = 1
_KEYS = {"format", "fingerprint", "dim", "dtype", "shards"}
_CHUNK = 16_384  # vectors checked at once
_REMEDY = "restore it from a copy, or delete the buffer and embed again"


@final
class TargetBuffer:
    """Serve stale embeddings from shards of rows, in memory or memory-mapped, as float32.

    Example:
        >>> buffer = TargetBuffer([torch.zeros(2, 3), torch.ones(1, 3)])
        >>> len(buffer), buffer.dim, buffer[torch.tensor([2, 0])].sum(dim=1).tolist()
        (3, 3, [3.0, 0.0])
    """

    def __init__(self, shards: Sequence[Tensor | Stored], *, mapped: bool = False) -> None:
        if not shards or not all(len(s) for s in shards):
            raise InputError("a buffer needs at least one target")
        self.shards = [s if isinstance(s, Stored) else Stored(s) for s in shards]
        self.mapped = mapped
        self.start = 0  # the first row of this process
        self.dim = self.shards[0].dim
        self.precision = self.shards[0].precision
        self.device = self.shards[0].device
        self.nbytes = sum(s.nbytes for s in self.shards)  # in memory or on disk
        self._starts = np.cumsum([0, *[len(s) for s in shards]])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def local(self) -> "TargetBuffer":
        """Return the rows of this process: all of them."""
        return self

    def __getitem__(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        """Return the stale embeddings of some rows, on the device of `rows`."""
        if len(self.shards) == 1:
            return self.shards[0][rows]
        found = torch.empty(len(rows), self.dim)
        for shard, here, local in self._by_shard(rows):
            found[here] = shard[local]
        return found.to(rows.device)

    def write(self, rows: Int[Tensor, " n"], vectors: Float[Tensor, "n d"]) -> None:
        """Replace some embeddings; those of a file cannot be."""
        if self.mapped:
            raise InputError("a buffer that is written to must be in memory: use in_memory()")
        for shard, here, local in self._by_shard(rows):
            shard.write(local, vectors[here.to(vectors.device)])

    def _by_shard(self, rows: Int[Tensor, " n"]) -> Iterator[tuple[Stored, Tensor, Tensor]]:
        """Yield the shards that hold some rows, a mask of those rows, and their places there."""
        flat = rows.cpu()
        shard = torch.from_numpy(np.searchsorted(self._starts, flat.numpy(), side="right") - 1)
        for s in shard.unique().tolist():
            here = shard == s
            yield self.shards[s], here, flat[here] - int(self._starts[s])

    def chunks(self, size: int, start: int = 0, stop: int | None = None) -> Chunks:
        """Yield `(first row, embeddings)` from `start` up to `stop`, at most `size` at a time."""
        stop = len(self) if stop is None else stop
        for first, shard in zip(self._starts.tolist(), self.shards, strict=False):
            for offset in range(0, len(shard), size):
                begin = max(start, first + offset)
                end = min(stop, first + min(offset + size, len(shard)))
                if begin < end:
                    yield begin, shard.between(begin - first, end - first)

    @classmethod
    def empty(
        cls, targets: int, dim: int, precision: Precision, device: torch.device | str
    ) -> "TargetBuffer":
        """Make room for embeddings that are still to be written, in memory."""
        return cls([Stored.empty(targets, dim, precision, device)])

    def shared(self) -> dict[str, Tensor]:
        """Return the storage of a buffer that is one shard in memory: writing to it writes here."""
        if len(self.shards) != 1 or self.mapped:
            raise InputError("a buffer that is written to must be in memory: use in_memory()")
        return self.shards[0].named()

    def in_memory(self, device: torch.device | str = "cpu") -> "TargetBuffer":
        """Copy the whole buffer into the memory of a device, as one shard."""
        return self.between(0, len(self), device)

    def between(self, start: int, stop: int, device: torch.device | str) -> "TargetBuffer":
        """Copy the rows from `start` up to `stop` into the memory of a device, as one shard."""
        held = Stored.empty(stop - start, self.dim, self.precision, device)
        for first, shard in zip(self._starts.tolist(), self.shards, strict=False):
            begin, end = max(start, first), min(stop, first + len(shard))
            for ours, theirs in zip(held.tensors, shard.tensors, strict=True):
                if begin < end and len(ours):  # only int8 has scales
                    ours[begin - start : end - start] = theirs[begin - first : end - first]
        return TargetBuffer([held])

    @classmethod
    def open(cls, folder: Path, expected: Fingerprint | None = None) -> "TargetBuffer":
        """Memory-map a finished buffer; refuse one that another encoder or corpus made."""
        manifest = read_manifest(folder)
        if expected is not None:
            check_maker(folder, manifest, expected)
        missing = [s["file"] for s in manifest["shards"] if not s.get("sha256")]
        if missing:
            raise InputError(f"the buffer {folder} is unfinished: {len(missing)} shards to embed")
        return open_shards(folder, manifest["shards"])

    @classmethod
    def open_checked(cls, folder: Path, expected: Fingerprint | None = None) -> "TargetBuffer":
        """Do as `open` with a buffer that another command wrote: read all of it, and check it."""
        buffer = cls.open(folder, expected)
        check_shards(folder)
        for start, vectors in buffer.chunks(_CHUNK):
            if not (finite := torch.isfinite(vectors).all(dim=1)).all():
                row = start + int(finite.int().argmin())
                raise InputError(f"the buffer {folder} has NaN or infinity in row {row}; {_REMEDY}")
        return buffer


def open_shards(folder: Path, shards: Sequence[dict[str, Any]]) -> TargetBuffer:
    """Memory-map some finished shards of a buffer as one of their own."""
    manifest = read_manifest(folder)
    return TargetBuffer([_map_shard(folder, shard, manifest) for shard in shards], mapped=True)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a buffer's manifest, or say what is wrong with it."""
    check_manifest(folder)
    path = folder / MANIFEST
    manifest = read_object(path)
    whole = manifest.pop("sha256", None)
    if manifest.keys() != _KEYS or manifest["format"] != FORMAT:
        raise InputError(f"{path} is not the manifest of a buffer of format {FORMAT}")
    if whole != digest(manifest):
        raise InputError(f"{path} is damaged: its own checksum does not fit")
    shards, dim = manifest["shards"], manifest["dim"]
    if manifest["dtype"] not in DTYPES or not isinstance(manifest["fingerprint"], dict):
        raise InputError(f"{path} does not say what the buffer holds")
    if not isinstance(shards, list) or not all(map(_is_shard, shards)) or not _is_count(dim):
        raise InputError(f"{path} does not say which shards there are")
    for shard in shards:
        inside(folder, shard["file"], path)
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a buffer's manifest, with a checksum of its own."""
    write_json(folder / MANIFEST, manifest | {"sha256": digest(manifest)})


def _is_shard(shard: Any) -> bool:  # noqa: ANN401 - whatever a file may hold
    return (
        isinstance(shard, dict)
        and isinstance(shard.get("file"), str)
        and _is_count(shard.get("rows"))
        and isinstance(shard.get("sha256", ""), str)
    )


def _is_count(value: Any) -> bool:  # noqa: ANN401
    return type(value) is int and 0 < value < 2**48


def check_shards(folder: Path, *, whole: bool = True) -> int:
    """Compare every shard of a buffer with its checksum; return how many there are.

    Unless `whole`, the buffer may be unfinished.
    """
    manifest = read_manifest(folder)
    if whole:
        TargetBuffer.open(folder)
    finished = [shard for shard in manifest["shards"] if shard.get("sha256")]
    for shard in finished:
        _map_shard(folder, shard, manifest)
        if sha256(path := folder / shard["file"]) != shard["sha256"]:
            rule = f"its checksum is not that in {MANIFEST}"
            raise InputError(f"{path} is damaged: {rule}; {_REMEDY}")
    return len(finished)


def check_maker(folder: Path, manifest: dict[str, Any], expected: Fingerprint) -> None:
    """Refuse a buffer that another encoder or corpus made, and say what differs."""
    if unlike := differences(manifest["fingerprint"], expected):
        raise InputError(f"the buffer {folder} was made by something else. {'; '.join(unlike)}")


def write_shard(path: Path, vectors: Float[Tensor, "n d"], dtype: str) -> str:
    """Write one shard, and return its checksum."""
    stored = Stored.of(vectors, cast("Precision", dtype))
    tensors = stored.named()
    with atomic_file(path) as temporary:
        save_file(tensors, temporary)
        return sha256(temporary)


def _map_shard(folder: Path, shard: dict[str, Any], manifest: dict[str, Any]) -> Stored:
    """Map the tensors of one safetensors file; its header says where each starts."""
    path = folder / shard["file"]
    if not path.is_file():
        raise InputError(f"the buffer {folder} lacks its shard {shard['file']}; {_REMEDY}")
    shapes = {"vectors": (np.dtype(manifest["dtype"]), (shard["rows"], manifest["dim"]))}
    if manifest["dtype"] == "int8":
        shapes["scales"] = (np.dtype("float32"), (shard["rows"], 1))
    with path.open("rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        size = start + sum(kind.itemsize * math.prod(shape) for kind, shape in shapes.values())
        if (found := path.stat().st_size) != size:
            raise InputError(f"{path} has {found} bytes, its manifest says {size}; {_REMEDY}")
        header = file.read(start - 8)
    try:
        tensors = json.loads(header)
        offsets = [start + tensors[name]["data_offsets"][0] for name in shapes]
        # Read-only: what could be written, even a copy of it, counts as the process's own memory.
        mapped = [
            np.memmap(path, kind, "r", offset, shape)
            for offset, (kind, shape) in zip(offsets, shapes.values(), strict=True)
        ]
    except (LookupError, OverflowError, RecursionError, TypeError, ValueError):
        raise InputError(f"{path} does not say where its vectors are; {_REMEDY}") from None
    if len(mapped) > 1 and not np.isfinite(mapped[1]).all():
        raise InputError(f"{path}: a scale is not a number; {_REMEDY}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return Stored(*map(torch.from_numpy, mapped))
