"""Corrected-subset: search a random part of the corpus, which changes over the run."""

from unstale.corrector.network import Corrector
from unstale.miners.corrected import build_corrected
from unstale.miners.miner import Miner
from unstale.miners.strategy import CORRECTOR, Materials, Strategy
from unstale.search.low_memory import RotatingSubset
from unstale.search.search import Search
from unstale.strategies import STRATEGIES

_TURNS = 80  # subsets in a run, as many as the paper's refreshes


def _build(materials: Materials) -> Miner:
    chosen = materials.settings

    def rotating(network: Corrector) -> Search:
        every = max(1, chosen.steps // _TURNS)
        return RotatingSubset(
            materials.whole, network, size=materials.subset_size, every=every, seed=chosen.seed
        )

    return build_corrected(materials, rotating)


STRATEGY = Strategy(
    name="corrected-subset",
    negatives_from=STRATEGIES["corrected-subset"],
    build=_build,
    cache="disk",
    reads=("sampling", "subset_size", *CORRECTOR),
    searches_part=True,
    one_process=True,
    needs_steps=True,
    tone="variant",
)
