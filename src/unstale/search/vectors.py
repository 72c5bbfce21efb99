"""What a search reads, and how: in chunks, in parts, and on its way to an accelerator."""

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.stored import Stored

CORRECTED = 2048  # rows to correct at once, which bounds the memory of a wide hidden layer


@runtime_checkable
class Vectors(Protocol):
    """What a search reads: a `TargetBuffer`, or `Stored`. Always served as float32."""

    def __len__(self) -> int:
        """Count the vectors."""
        ...

    @property
    def dim(self) -> int:
        """Return the width of the vectors."""
        ...

    @property
    def device(self) -> torch.device:
        """Return where the vectors are."""
        ...

    def __getitem__(self, rows: Int[Tensor, " n"], /) -> Float[Tensor, "n d"]:
        """Return some rows."""
        ...

    def chunks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
        """Yield `(first row, vectors)` over all of them, at most `size` a time."""
        ...


def span(
    vectors: Vectors, start: int, stop: int, size: int
) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
    """Yield the chunks of rows from `start` up to `stop`, cut where they reach over."""
    if isinstance(vectors, Stored):  # convert nothing that is not asked for
        for first in range(start, stop, size):
            yield first, vectors.between(first, min(first + size, stop))
        return
    for first, chunk in vectors.chunks(size):
        begin, end = max(start, first), min(stop, first + len(chunk))
        if begin < end:
            yield begin, chunk[begin - first : end - first]


def on_device(
    chunks: Iterable[tuple[int, Float[Tensor, "n d"]]], device: torch.device
) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
    """Bring chunks to a device; to an accelerator each while the one before is being used."""
    if device.type != "cuda":
        for start, chunk in chunks:
            yield start, chunk.to(device)
        return
    waiting: tuple[int, Float[Tensor, "n d"]] | None = None
    for start, chunk in chunks:
        # From pinned memory the copy runs beside the kernels that are already queued.
        pinned = chunk if chunk.is_cuda else chunk.pin_memory()
        coming = (start, pinned.to(device, non_blocking=True))
        if waiting is not None:
            yield waiting
        waiting = coming
    if waiting is not None:
        yield waiting
