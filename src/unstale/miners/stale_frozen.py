"""Stale-frozen: search the stale embeddings, which stay true since the target encoder is fixed."""

from unstale.miners.stale import Stale
from unstale.miners.strategy import built_by

STRATEGY = built_by("stale-frozen", lambda materials: Stale(materials.cache, materials.gumbel_seed))
