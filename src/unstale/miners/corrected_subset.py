"""Corrected-subset: search a random part of the corpus, which changes over the run."""

from unstale.corrector.network import Corrector
from unstale.miners.corrected import build_corrected
from unstale.miners.miner import Miner
from unstale.miners.strategy import Materials, built_by
from unstale.search.low_memory import RotatingSubset
from unstale.search.search import Search

_TURNS = 80  # subsets in a run, as many as the paper's refreshes


def _build(materials: Materials) -> Miner:
    chosen = materials.settings

    def rotating(network: Corrector) -> Search:
        every = max(1, chosen.steps // _TURNS)
        return RotatingSubset(
            materials.whole, network, size=materials.subset_size, every=every, seed=chosen.seed
        )

    return build_corrected(materials, rotating)


STRATEGY = built_by("corrected-subset", _build)
