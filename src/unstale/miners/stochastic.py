"""Stochastic negative mining: a uniform subset of the targets, re-drawn and re-embedded."""

from typing import final

from jaxtyping import Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer
from unstale.miners.miner import Embed, Embedded, Miner, Queries
from unstale.miners.stale import added_to
from unstale.miners.strategy import Materials, built_by
from unstale.schedule import Schedule
from unstale.search.draws import subset
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
        gumbel_seed: int | None = None,
    ) -> None:
        super().__init__()
        self.targets = len(buffer)
        self.size = min(size, self.targets)
        self.schedule = schedule
        self.seed = seed
        self.gumbel_seed = gumbel_seed
        rows = subset(self.targets, self.size, seed, step=0)
        self.rows: Tensor
        self.vectors: Tensor
        self.register_buffer("rows", rows)  # a checkpoint holds both
        self.register_buffer("vectors", buffer[rows])

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k of the subset."""
        search = Exact(TargetBuffer([self.vectors]), rows=self.rows)  # where they are by now
        added = added_to(queries, self.gumbel_seed)
        return search.top_k(queries.vectors, k, queries.positives, added).rows

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Draw another subset and embed it, if it is time."""
        if not self.schedule.due(step):
            return Embedded()
        self.rows.copy_(subset(self.targets, self.size, self.seed, step))
        self.vectors.copy_(embed(self.rows))
        return Embedded(refreshed=self.size)


def _build(materials: Materials) -> Miner:
    return Stochastic(
        materials.cache,
        materials.schedule,
        size=materials.subset_size,
        seed=materials.settings.seed,
        gumbel_seed=materials.gumbel_seed,
    )


STRATEGY = built_by("stochastic", _build)
