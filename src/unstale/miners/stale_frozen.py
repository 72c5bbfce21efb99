"""Stale-frozen: search the stale embeddings, which stay true since the target encoder is fixed."""

from unstale.miners.stale import Stale
from unstale.miners.strategy import Strategy

STRATEGY = Strategy(
    name="stale-frozen",
    negatives_from="the same as stale; the target encoder is not trained (needs separate towers)",
    build=lambda materials: Stale(materials.cache, materials.gumbel_seed),
    reads=("sampling",),
    freezes_targets=True,
)
