"""Every strategy by its name: what it needs, and how to build its miner."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.losses import LossName
from unstale.corrector.network import Corrector
from unstale.errors import InputError
from unstale.miners import Corrected, InBatch, Miner, Mixed, Stale, Uniform
from unstale.search.draws import Gumbel

Sampling = Literal["top-k", "gumbel"]


@final
@dataclass(frozen=True)
class Recipe:
    """What a miner may be built from; each strategy takes what it needs."""

    targets: int
    buffer: TargetBuffer | None
    seed: int
    scale: float
    hard_negatives: int
    uniform_negatives: int
    sampling: Sampling
    corrector_hidden: tuple[int, ...]
    corrector_loss: LossName

    @property
    def gumbel(self) -> Gumbel | None:
        """Return the noise of Gumbel-max sampling, or None for a plain top-k."""
        return Gumbel(self.seed, self.scale) if self.sampling == "gumbel" else None

    @property
    def cache(self) -> TargetBuffer:
        """Return the buffer of a strategy that has one."""
        assert self.buffer is not None
        return self.buffer


@final
@dataclass(frozen=True)
class Strategy:
    """A way to choose the candidates.

    `buffered`: needs the corpus embedded. `frozen`: the target tower is not trained.
    `mixes`: uniform targets are added to what it mines.
    """

    build: Callable[[Recipe], Miner]
    buffered: bool = True
    frozen: bool = False
    mixes: bool = True


def _corrected(recipe: Recipe) -> Miner:
    return Corrected(
        recipe.cache,
        Corrector(recipe.cache.dim, recipe.corrector_hidden),
        scale=recipe.scale,
        loss=recipe.corrector_loss,
        gumbel=recipe.gumbel,
    )


STRATEGIES: dict[str, Strategy] = {
    "in-batch": Strategy(lambda r: InBatch(), buffered=False, mixes=False),
    "uniform": Strategy(lambda r: Uniform(r.targets, r.seed), buffered=False),
    "stale": Strategy(lambda r: Stale(r.cache, r.gumbel)),
    "stale-frozen": Strategy(lambda r: Stale(r.cache, r.gumbel), frozen=True),
    "corrected": Strategy(_corrected),
}


def find_strategy(name: str) -> Strategy:
    """Look a strategy up, or list those there are."""
    if name not in STRATEGIES:
        raise InputError(f"unknown strategy {name!r}; choose from {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def build_miner(name: str, recipe: Recipe) -> Miner:
    """Build a strategy's miner, with its uniform company."""
    strategy = find_strategy(name)
    miner = strategy.build(recipe)
    if strategy.mixes and recipe.uniform_negatives:
        uniform = Uniform(recipe.targets, recipe.seed)
        return Mixed(miner, uniform, recipe.uniform_negatives)
    return miner
