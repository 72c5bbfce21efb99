"""A buffer in several processes, each with some of the rows: so capacity grows with them."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.distributed import share, total, world
from unstale.settings import Precision


@final
class ShardedBuffer:
    """Serve rows to all processes, from the one that holds each.

    Every process must ask for the same rows at the same time; they all do, since they all mine for
    the whole batch.
    """

    def __init__(self, local: TargetBuffer, start: int, targets: int) -> None:
        self.local = local
        self.start = start  # the first of the local rows
        self.targets = targets  # N, over all processes
        self.dim = local.dim
        self.device = local.device

    def __len__(self) -> int:
        return self.targets

    def __getitem__(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        """Return the stale embeddings of some rows; the others add zeros, which change nothing."""
        here = self._here(rows)
        found = torch.zeros(len(rows), self.dim, device=rows.device)
        found[here] = self.local[rows[here] - self.start]
        return total(found)

    def write(self, rows: Int[Tensor, " n"], vectors: Float[Tensor, "n d"]) -> None:
        """Replace those of some embeddings that this process holds."""
        here = self._here(rows)
        self.local.write(rows[here] - self.start, vectors[here.to(vectors.device)])

    def shared(self) -> dict[str, Tensor]:
        """Return the storage of this process's rows."""
        return self.local.shared()

    def _here(self, rows: Int[Tensor, " n"]) -> Int[Tensor, " m"]:
        here = (rows >= self.start) & (rows < self.start + len(self.local))
        return here.nonzero()[:, 0]  # by number: a mask makes a device wait at each use


Buffer = TargetBuffer | ShardedBuffer


def make_room(targets: int, dim: int, precision: Precision, device: torch.device | str) -> Buffer:
    """Make a buffer in memory that is still to be written: all of it, or this process's rows."""
    if world() == 1:
        return TargetBuffer.empty(targets, dim, precision, device)
    part = share(targets)
    local = TargetBuffer.empty(part.stop - part.start, dim, precision, device)
    return ShardedBuffer(local, part.start, targets)


def load(buffer: TargetBuffer, device: torch.device | str) -> Buffer:
    """Copy a buffer from disk into memory: all of it, or this process's rows."""
    if world() == 1:
        return buffer.in_memory(device)
    part = share(len(buffer))
    return ShardedBuffer(buffer.between(part.start, part.stop, device), part.start, len(buffer))
