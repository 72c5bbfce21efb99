"""Stale-frozen: search the stale embeddings, which stay true since the target encoder is fixed."""

from unstale.miners.stale import Stale
from unstale.miners.strategy import Strategy
from unstale.strategies import STRATEGIES

STRATEGY = Strategy(
    name="stale-frozen",
    negatives_from=STRATEGIES["stale-frozen"],
    build=lambda materials: Stale(materials.cache, materials.gumbel_seed),
    reads=("sampling",),
    freezes_targets=True,
)
