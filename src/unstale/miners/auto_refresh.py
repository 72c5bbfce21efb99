"""Auto-refresh: re-embed every target when the meter finds the buffer stale, not by schedule."""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from unstale.buffer.sharded import Buffer
from unstale.miners.exhaustive import Refreshed
from unstale.miners.miner import Embed, Embedded, Freshness, Miner, Queries, View
from unstale.miners.schedule import Schedule
from unstale.miners.strategy import Strategy
from unstale.search.search import Search


@final
class AutoRefreshed(Miner):
    """Search B, and renew it after a reading in which it found too little of the true top-k.

    A schedule spends as much on an encoder that hardly moves as on one that runs away; a reading
    costs a few hundred targets.

    Args:
        buffer: The stale embeddings, in memory: they are replaced.
        below: The overlap with the true top-k under which to re-embed.
        noise: Seed of Gumbel noise, to sample instead of taking the top k.
    """

    def __init__(self, buffer: Buffer, below: float, noise: int | None = None) -> None:
        super().__init__()
        self.base = Refreshed(buffer, Schedule([]), noise)
        self.below = below
        self.due: Tensor
        self.register_buffer("due", torch.tensor(False))  # a checkpoint may lie in between

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k of the buffer as it was last refreshed."""
        return self.base.mine(queries, k)

    def observe(self, reading: Freshness) -> None:
        """Note whether the buffer still finds what it should."""
        self.due.fill_(reading.overlap_stale < self.below)

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Re-embed all targets if the last reading asked for it."""
        if not self.due:
            return Embedded()
        self.due.fill_(False)
        return self.base.renew(embed)

    def view(self, rows: Int[Tensor, " n"], step: int) -> View:
        """Show the embeddings of the last refresh."""
        return self.base.view(rows, step)

    def searches(self) -> list[Search]:
        """List the search of the buffer."""
        return self.base.searches()

    def row_tensors(self) -> dict[str, int]:
        """Name the buffer itself, which is replaced."""
        return {f"base.{name}": first for name, first in self.base.row_tensors().items()}


STRATEGY = Strategy(
    name="auto-refresh",
    negatives_from="the cached embeddings, re-embedded when the freshness meter finds them stale "
    "(`--refresh-below`)",
    build=lambda m: AutoRefreshed(m.cache, m.settings.refresh_below, m.noise),
    reembeds="the whole corpus, when needed",
    cache="rewritten",
    reads=("sampling", "refresh_below"),
)
