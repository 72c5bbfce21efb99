"""Stale-rerank: the best stale targets of each query, reranked by the corrector."""

from unstale.miners.corrected import build_corrected
from unstale.miners.miner import Miner
from unstale.miners.strategy import Materials, built_by
from unstale.search.low_memory import StaleRerank


def _build(materials: Materials) -> Miner:
    depth = materials.baseline.rerank_depth
    return build_corrected(materials, lambda h: StaleRerank(materials.whole, h, depth))


STRATEGY = built_by("stale-rerank", _build)
