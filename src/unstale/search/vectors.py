"""What a search reads, and how: in chunks, in parts, and on its way to an accelerator."""

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
    """Bring chunks to a device."""
    return ((start, chunk.to(device)) for start, chunk in chunks)
