"""All negatives of a batch: what a strategy mines, filtered, and uniform and given targets."""

from typing import final

from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from unstale.alone import check_filters
from unstale.data.dataset import ByQuery
from unstale.filters import Filters
from unstale.miners.filters import FalseNegatives, PairScores
from unstale.miners.given import draw_given
from unstale.miners.miner import Dropped, Mined, Miner, Queries
from unstale.miners.strategy import Materials, Strategy
from unstale.miners.uniform import Uniform
from unstale.strategies import NegativeCounts


@final
class Negatives:
    """Mine the negatives of each kind that a query's softmax holds beside its label.

    Args:
        counts: How many of each kind a query gets.
        mined_for: The share of the queries that hard ones are mined for.
        given: The hard negatives that the dataset provides, by query.
    """

    def __init__(
        self,
        miner: Miner,
        counts: NegativeCounts = NegativeCounts(),
        *,
        mined_for: float = 1.0,
        filters: FalseNegatives | None = None,
        uniform: Uniform | None = None,
        given: ByQuery | None = None,
        given_count: int = 0,
        seed: int = 0,
    ) -> None:
        self.miner = miner
        self.counts = counts
        self.mined_for = mined_for
        self.filters = filters
        self.uniform = uniform
        self.given = given
        self.given_count = given_count
        self.seed = seed

    def mine(self, queries: Queries) -> Mined:
        """Choose the negatives of a batch."""
        rows, dropped = self.mine_hard(queries.first(self.mined_for), self.counts.hard)
        rows, none = fill(rows, len(queries.rows)), queries.positives[:, :0]
        if dropped is not None:
            dropped = dropped._replace(kept_away=fill(dropped.kept_away, len(rows)))
        uniform = self.uniform.mine(queries, self.counts.uniform) if self.uniform else none
        given = none
        if self.given is not None and self.given_count:
            given = draw_given(self.given, queries, self.given_count, self.seed)
        return Mined(rows, uniform, given, dropped)

    def mine_hard(self, queries: Queries, k: int) -> tuple[Int[Tensor, "b m"], Dropped | None]:
        """Choose k targets of the strategy for each query, without likely false negatives."""
        if self.filters is None:
            return self.miner.mine(queries, k), None
        return self.filters.mine(self.miner, queries, k)


def fill(rows: Int[Tensor, "a m"], count: int) -> Int[Tensor, "b m"]:
    """Add empty rows, of -1, up to a count: for queries that nothing was mined for.

    Example:
        >>> import torch
        >>> fill(torch.tensor([[7, 8]]), 2).tolist()
        [[7, 8], [-1, -1]]
    """
    return functional.pad(rows, (0, 0, 0, count - len(rows)), value=-1)


def build_negatives(
    strategy: Strategy,
    materials: Materials,
    counts: NegativeCounts,
    *,
    filters: Filters = Filters(),
    cross_encoder: PairScores | None = None,
    given: ByQuery | None = None,
    given_count: int = 0,
) -> Negatives:
    """Build a strategy's miner, its filters and the kinds of negatives beside it."""
    check_filters(strategy, filters, cross_encoder=cross_encoder is not None)
    reach = materials.subset_size if strategy.searches_part else materials.targets
    filtered = cross_encoder is not None or not filters.idle
    seed, drawn = materials.settings.seed, strategy.caches and counts.uniform
    return Negatives(
        strategy.build(materials),
        counts,
        mined_for=strategy.mined_for,
        filters=FalseNegatives(filters, reach, cross_encoder) if filtered else None,
        uniform=Uniform(materials.targets, seed) if drawn else None,
        given=given,
        given_count=given_count,
        seed=seed,
    )
