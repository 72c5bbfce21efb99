"""Stochastic negative mining: a uniform subset of the targets, re-drawn and re-embedded."""

from typing import final

from jaxtyping import Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer
from unstale.miners.miner import Embed, Embedded, Miner, Queries
from unstale.miners.schedule import Schedule
from unstale.search.added import Noise
from unstale.search.draws import Gumbel, subset
from unstale.search.exact import Exact


@final
class Stochastic(Miner):
    """Search a subset of the corpus that is fresh at every refresh; the rest is never seen."""

    def __init__(
        self,
        buffer: Buffer,
        schedule: Schedule,
        *,
        size: int,
        seed: int,
        gumbel: Gumbel | None = None,
    ) -> None:
        super().__init__()
        self.targets = len(buffer)
        self.size = min(size, self.targets)
        self.schedule = schedule
        self.seed = seed
        self.gumbel = gumbel
        rows = subset(self.targets, self.size, seed, step=0)
        self.rows: Tensor
        self.vectors: Tensor
        self.register_buffer("rows", rows)  # a checkpoint holds both
        self.register_buffer("vectors", buffer[rows])

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k of the subset."""
        noise = Noise(self.gumbel, queries.step, queries.rows) if self.gumbel else None
        search = Exact(TargetBuffer([self.vectors]), rows=self.rows)
        return search.top_k(queries.vectors, k, queries.positives, noise).rows

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Draw another subset and embed it, if it is time."""
        if not self.schedule.due(step):
            return Embedded()
        self.rows.copy_(subset(self.targets, self.size, self.seed, step))
        self.vectors.copy_(embed(self.rows))
        return Embedded(refreshed=self.size)
