"""What a search reads, and how: in chunks, in parts, and on its way to an accelerator."""

from itertools import chain, pairwise
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.stored import Chunks

CORRECTED = 2048  # rows to correct at once, which bounds the memory of a wide hidden layer


@runtime_checkable
class Vectors(Protocol):
    """What a search reads: a `TargetBuffer`, or `Stored`. Always served as float32."""

    dim: int
    device: torch.device

    def __len__(self) -> int:
        """Count the vectors."""

    def __getitem__(self, rows: Int[Tensor, " n"], /) -> Float[Tensor, "n d"]:
        """Return some rows."""

    def chunks(self, size: int, start: int = 0, stop: int | None = None) -> Chunks:
        """Yield `(first row, vectors)` from `start` up to `stop`, at most `size` at a time."""


def on_device(chunks: Chunks, device: torch.device) -> Chunks:
    """Bring chunks to a device; to an accelerator each while the one before is being used."""
    if device.type != "cuda":
        return ((start, chunk.to(device)) for start, chunk in chunks)
    # From pinned memory the copy runs beside the kernels that are already queued.
    pinned = ((start, c if c.is_cuda else c.pin_memory()) for start, c in chunks)
    coming = ((start, c.to(device, non_blocking=True)) for start, c in pinned)
    nothing = torch.empty(0, 0)  # comes after the last
    return (chunk for chunk, _ in pairwise(chain(coming, [(0, nothing)])))
