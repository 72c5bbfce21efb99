"""What a search reads, and how: in chunks, in parts, and on its way to an accelerator."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.stored import Chunks

_CORRECTED = 2048  # rows to correct at once on a CPU: it bounds the memory of a wide hidden layer
_CACHE = 24 * 2**20  # bytes; measured: what stays in a CPU's last-level cache between two layers
_MEMORY = 2**30  # bytes of an accelerator's memory to use at once: few and large products


def chunk_rows(device: torch.device, floats: int) -> int:
    """Return how many targets to score at once, each of which takes some floats.

    Example:
        >>> chunk_rows(torch.device("cpu"), 1024), chunk_rows(torch.device("cuda"), 1024)
        (6144, 262144)
    """
    if device.type == "cpu":
        return min(16_384, max(1024, _CACHE // (4 * floats)))
    return max(1024, _MEMORY // (4 * floats))


def corrected_rows(device: torch.device, floats: int) -> int:
    """Return how many targets to correct at once, each of which takes some floats.

    Example:
        >>> corrected_rows(torch.device("cpu"), 1024), corrected_rows(torch.device("cuda"), 1024)
        (2048, 262144)
    """
    return _CORRECTED if device.type == "cpu" else chunk_rows(device, floats)


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
