"""A strategy: its traits, and how its miner is built from the materials of a run.

The traits of each are declared in `unstale.strategies`: command line, documentation, planner and
report read them there. Its miner is in a file of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import final

import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer
from unstale.corrector.memory import ResidualMemory
from unstale.errors import InputError
from unstale.machine import check_fits
from unstale.miners.miner import Miner
from unstale.schedule import Schedule
from unstale.search.auto import Choice
from unstale.settings import MiningSettings, RefreshSettings
from unstale.strategies import STRATEGIES, Traits, announced


@final
@dataclass(frozen=True)
class Materials:
    """What a miner may be built from; each strategy takes what it needs."""

    settings: MiningSettings
    targets: int  # N, the size of the corpus
    buffer: Buffer | None = None  # the stale embeddings, for a strategy that caches
    search: Choice | None = None  # of corrected embeddings, for a strategy that can choose
    uniform_negatives: int = 0  # for each query, for a strategy that draws its own
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))  # of the corrector
    unit: bool = False  # the encoder's vectors have unit length
    # What only strategies of a training read.
    baseline: RefreshSettings = field(default_factory=RefreshSettings)

    @property
    def cache(self) -> Buffer:
        """Return the buffer of a strategy that caches."""
        assert self.buffer is not None
        return self.buffer

    @property
    def whole(self) -> TargetBuffer:
        """Return the buffer of a strategy that runs in one process."""
        assert isinstance(self.buffer, TargetBuffer)
        return self.buffer

    @property
    def gumbel_seed(self) -> int | None:
        """Return the seed of Gumbel noise, or None for a plain top-k."""
        return self.settings.seed if self.settings.sampling == "gumbel" else None

    @property
    def schedule(self) -> Schedule:
        """Return when a strategy refreshes: after which steps."""
        chosen = self.settings
        if chosen.refresh_schedule is not None:
            return Schedule.parse(chosen.refresh_schedule)
        if chosen.refresh_every is not None:
            return Schedule.every(chosen.refresh_every, chosen.steps)
        return Schedule.evenly(chosen.refreshes, chosen.steps)

    @property
    def twentieth(self) -> int:
        """Return the paper's share for a subset, 1M of 21M targets; of few targets, more."""
        return max(self.targets // 20, min(self.targets, 256))

    @property
    def subset_size(self) -> int:
        """Return how many targets a strategy holds that searches a part of the corpus."""
        return self.baseline.subset_size or self.twentieth

    @property
    def residuals(self) -> ResidualMemory | None:
        """Return the residual memory of a corrector that has one."""
        if not self.settings.memory:
            return None
        rows, first = len(self.cache.local), self.cache.start
        size, way = 4 * rows * self.cache.dim, "--no-memory leaves it out"
        check_fits("the residual memory", size, self.cache.device, way)
        return ResidualMemory(rows, self.cache.dim, first, self.cache.device)


@final
@dataclass(frozen=True)
class Strategy(Traits):
    """A way to choose negatives: its traits, and how its miner is built.

    Args:
        build: Makes its miner.
    """

    build: Callable[[Materials], Miner] = field(kw_only=True)


def built_by(name: str, build: Callable[[Materials], Miner]) -> Strategy:
    """Give one of our own strategies, declared in `unstale.strategies`, its miner."""
    return Strategy(**vars(STRATEGIES[name]), build=build)


_REGISTERED: dict[str, Strategy] = {}


def register(strategy: Strategy) -> Strategy:
    """Make a strategy known by its name; the name must be new."""
    if _REGISTERED.get(strategy.name, strategy) is not strategy:
        raise InputError(f"a strategy named {strategy.name!r} is registered already")
    _REGISTERED[strategy.name] = strategy
    return strategy


@cache
def _announced() -> list[Strategy]:
    """Load the strategies of other packages, once: looking for entry points takes time."""
    return [entry.load() for entry in announced()]


def strategies() -> dict[str, Strategy]:
    """Return every strategy by its name, those of other packages last."""
    for strategy in _announced():
        register(strategy)
    return dict(_REGISTERED)


def find_strategy(name: str) -> Strategy:
    """Look a strategy up, or list those there are."""
    known = strategies()
    if name not in known:
        raise InputError(f"unknown strategy {name!r}; choose from {', '.join(known)}")
    return known[name]
