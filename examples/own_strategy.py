"""A strategy of your own: the nearest stale targets of each query, without the very nearest.

A script calls `unstale.miners.register(STRATEGY)`; a package announces it in pyproject.toml:

    [project.entry-points."unstale.strategies"]
    stale-without-first = "own_strategy:STRATEGY"
"""

from torch import Tensor

from unstale.miners import Miner, Queries, Ranked, Stale, Strategy, View


class WithoutFirst(Miner):
    """Skip the best candidate of each query, which is the likeliest false negative."""

    def __init__(self, stale: Stale) -> None:
        super().__init__()
        self.stale = stale

    def mine(self, queries: Queries, k: int) -> Tensor:
        """Take one more than is asked for, and leave the first."""
        return self.stale.mine(queries, k + 1)[:, 1:]

    def view(self, rows: Tensor) -> View:
        """Show the stale embeddings."""
        return self.stale.view(rows)

    def ranked(self, queries: Tensor, k: int, exclude: Tensor | None = None) -> Ranked:
        """Rank the corpus by them, for the freshness meter."""
        return self.stale.ranked(queries, k, exclude)


STRATEGY = Strategy(
    name="stale-without-first",
    negatives_from="the cached embeddings, without the nearest target of each query",
    build=lambda materials: WithoutFirst(Stale(materials.cache, materials.gumbel_seed)),
    reads=("sampling",),
)
