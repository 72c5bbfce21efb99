"""What is added to the scores of a batch of queries before the top k: residuals, noise or both."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.corrector.memory import ResidualMemory
from unstale.search.draws import gumbel

LateScores = Callable[[Int[Tensor, "b m"]], Float[Tensor, "b m"]]


@final
@dataclass(frozen=True)
class Added:
    """Add to the score of each (query, row) what a memory knows, noise of a step, or both."""

    step: int
    vectors: Float[Tensor, "b d"]
    queries: Int[Tensor, " b"]  # which queries they are, the key of their noise
    memory: ResidualMemory | None = None  # of the targets' residuals r: it adds q.r
    gumbel_seed: int | None = None  # the seed of Gumbel noise, which makes a top k a sample
    scale: float = 1.0  # of the softmax to sample from
    first: int = 0  # the row in the corpus from which rows are counted

    def scores(self, rows: Int[Tensor, " n"] | slice) -> Float[Tensor, "b n"]:
        """Return what to add to the scores of some rows, for all the queries."""
        if isinstance(rows, slice):
            rows = slice(rows.start + self.first, rows.stop + self.first)
        else:
            rows = rows + self.first
        parts = []
        if self.memory is not None:
            parts.append(self.memory.scores(self.vectors, rows))
        if self.gumbel_seed is not None:
            keys = rows
            if isinstance(keys, slice):
                keys = torch.arange(keys.start, keys.stop, device=self.vectors.device)
            drawn = gumbel(self.gumbel_seed, self.scale, self.step, self.queries, keys)
            parts.append(drawn.to(self.vectors.device))
        return reduce(torch.add, parts)

    def of(self, places: Int[Tensor, " c"] | slice) -> "Added":
        """Return the same for some of the queries, by their places in the batch."""
        return replace(self, vectors=self.vectors[places], queries=self.queries[places])

    def starting_at(self, first: int) -> "Added":
        """Return the same for a part of the corpus, whose rows are counted from `first`."""
        return replace(self, first=self.first + first)

    @property
    def late(self) -> LateScores | None:
        """Return how to score some rows of each query, if a scan may do without.

        An approximate search then adds it only to the targets that it has fetched. A residual
        hardly lifts a target from far below; noise does, so it is never late.
        """
        memory = self.memory
        if memory is None or self.gumbel_seed is not None:
            return None
        return lambda rows: memory.pair_scores(self.vectors, rows + self.first)
