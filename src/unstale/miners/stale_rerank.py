"""Stale-rerank: the best stale targets of each query, reranked by the corrector."""

from unstale.miners.corrected import build_corrected
from unstale.miners.miner import Miner
from unstale.miners.strategy import CORRECTOR, Materials, Strategy
from unstale.search.low_memory import StaleRerank
from unstale.strategies import STRATEGIES


def _build(materials: Materials) -> Miner:
    depth = materials.baseline.rerank_depth
    return build_corrected(materials, lambda h: StaleRerank(materials.whole, h, depth))


STRATEGY = Strategy(
    name="stale-rerank",
    negatives_from=STRATEGIES["stale-rerank"],
    build=_build,
    cache="disk",
    reads=("sampling", "rerank_depth", *CORRECTOR),
    one_process=True,
    tone="variant",
)
