"""Exhaustive: re-embed every target on a schedule."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.sharded import Buffer
from unstale.corrector.memory import Rows
from unstale.miners.miner import Embed, Embedded, Freshness, Miner, Queries, Ranked, View
from unstale.miners.stale import Stale
from unstale.miners.strategy import built_by
from unstale.schedule import Schedule
from unstale.search.search import Search

_CHUNK = 16_384


@final
class Refreshed(Miner):
    """Search B, and run the encoder on all of it on a schedule, or when it is found stale.

    A schedule spends as much on an encoder that hardly moves as on one that runs away; a reading
    of the meter costs some 1,500 targets.

    Args:
        buffer: The stale embeddings, in memory: they are replaced.
        gumbel_seed: Seed of Gumbel noise, to sample instead of taking the top k.
        below: Re-embed after a reading that finds less than this share of the true top k.
    """

    def __init__(
        self, buffer: Buffer, schedule: Schedule, gumbel_seed: int | None = None, below: float = 0.0
    ) -> None:
        super().__init__()
        self.buffer = buffer
        self.schedule = schedule
        self.below = below
        self.stale = Stale(buffer, gumbel_seed)
        self.stale_now: Tensor
        self.register_buffer("stale_now", torch.tensor(False))  # a checkpoint may lie in between
        self._held = rows_of(buffer)

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k of the buffer as it was last refreshed."""
        return self.stale.mine(queries, k)

    def observe(self, reading: Freshness) -> None:
        """Note whether the buffer still finds what it should."""
        self.stale_now.fill_(reading.overlap_stale < self.below)

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Re-embed all targets if it is time."""
        if not self.stale_now and not self.schedule.due(step):
            return Embedded()
        self.stale_now.fill_(False)
        return Embedded(refreshed=embed_all(self.buffer, embed))

    def view(self, rows: Int[Tensor, " n"]) -> View:
        """Show the embeddings of the last refresh."""
        return self.stale.view(rows)

    def ranked(
        self, queries: Float[Tensor, "q d"], k: int, exclude: Int[Tensor, "q p"] | None = None
    ) -> Ranked:
        """Find the k best targets by the embeddings of the last refresh."""
        return self.stale.ranked(queries, k, exclude)

    def searches(self) -> list[Search]:
        """List the search of the buffer."""
        return self.stale.searches()

    def row_tensors(self) -> dict[str, Rows]:
        """Name the buffer itself, which is replaced."""
        return self._held


def embed_all(buffer: Buffer, embed: Embed) -> int:
    """Replace every row of a buffer by its embedding now, and return how many there are."""
    for rows in torch.arange(len(buffer)).split(_CHUNK):
        buffer.write(rows, embed(rows))
    return len(buffer)


def rows_of(buffer: Buffer) -> dict[str, Rows]:
    """Name the storage of a buffer that a run writes to: a checkpoint must hold it."""
    return {name: Rows(tensor, buffer.start) for name, tensor in buffer.shared().items()}


STRATEGY = built_by("exhaustive", lambda m: Refreshed(m.cache, m.schedule, m.gumbel_seed))
