"""A strategy of your own: the nearest stale targets of each query, without the very nearest.

In a script, register it and train with it by its name:

    unstale.miners.register(STRATEGY)
    unstale.train(dataset, model, "runs/own", strategy="stale-without-first")

For the command line, announce it in the pyproject.toml of your package:

    [project.entry-points."unstale.strategies"]
    stale-without-first = "own_strategy:STRATEGY"
"""

from torch import Tensor

from unstale.miners import Miner, Queries, Stale, Strategy, View


class WithoutFirst(Miner):
    """Skip the best candidate of each query, which is the likeliest false negative."""

    def __init__(self, stale: Stale) -> None:
        super().__init__()
        self.stale = stale

    def mine(self, queries: Queries, k: int) -> Tensor:
        return self.stale.mine(queries, k + 1)[:, 1:]

    def view(self, rows: Tensor, step: int) -> View:
        return self.stale.view(rows, step)


STRATEGY = Strategy(
    name="stale-without-first",
    negatives_from="the cached embeddings, without the nearest target of each query",
    build=lambda materials: WithoutFirst(Stale(materials.cache, materials.noise)),
    reads=("sampling",),
)
