"""A strategy: its name, what it does, what it needs, and how its miner is built.

Each strategy is declared at the end of its miner's file and registered by one line in
`miners/__init__.py`. Command line, documentation, planner and report read what is declared here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, final

import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer
from unstale.corrector.memory import ResidualMemory
from unstale.errors import InputError
from unstale.machine import check_fits
from unstale.miners.miner import Miner
from unstale.schedule import Schedule
from unstale.search.auto import Choice
from unstale.settings import HIDDEN, CorrectorSettings, MiningSettings, RefreshSettings
from unstale.strategies import announced

CORRECTOR = tuple(CorrectorSettings.__dataclass_fields__)
SCHEDULE = ("refreshes", "refresh_every", "refresh_schedule")


@final
class NegativeCounts(NamedTuple):
    """How many negatives of each kind a query gets."""

    hard: int = 4  # mined
    uniform: int = 1  # drawn uniformly


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
class Strategy:
    """A way to choose negatives.

    Args:
        name: The name that `--strategy` takes.
        negatives_from: Where its negatives come from, for help and documentation.
        build: Makes its miner.
        reembeds: What it re-embeds during training, for the documentation.
        cache: What it does with the cached embeddings: `none` needs none, `memory` reads them,
            `disk` leaves them on disk, `rewritten` replaces them, `later` makes them on the way.
        reads: Settings that only some strategies read; others leave them without effect.
        negatives: How many negatives of each kind a query gets by default.
        mined_for: The share of a batch's queries that it mines for; all of them use the result.
        views_all: Whether it can show any target as it sees it, which false-negative filters,
            and the freshness meter need.
        searches_part: Whether it searches only a part of the corpus at a time.
        one_process: Whether it needs the whole buffer in one process.
        needs_steps: Whether it must know the length of the run.
        freezes_targets: Whether the target encoder is not trained.
        corrector_hidden: Units of its corrector by default; 0 is a linear one.
        adds_in_batch: Whether the loss over the batch's positives alone is added to that over all
            candidates.
        rag: Whether `unstale rag` offers it.
        planned: Whether `unstale plan` prices it.
        tone: Its colour in reports.
    """

    name: str
    negatives_from: str
    build: Callable[[Materials], Miner]
    reembeds: str = "nothing"
    cache: Literal["none", "memory", "disk", "rewritten", "later"] = "memory"
    reads: tuple[str, ...] = ()
    negatives: NegativeCounts = NegativeCounts()
    mined_for: float = 1.0
    views_all: bool = True
    searches_part: bool = False
    one_process: bool = False
    needs_steps: bool = False
    freezes_targets: bool = False
    corrector_hidden: int = HIDDEN
    adds_in_batch: bool = False
    rag: bool = False
    planned: bool = False
    tone: Literal["stale", "corrected", "variant", "exhaustive", "other"] = "other"

    @property
    def caches(self) -> bool:
        """Tell whether it needs the corpus embedded."""
        return self.cache != "none"

    @property
    def corrects(self) -> bool:
        """Tell whether it trains a corrector."""
        return "corrector_hidden" in self.reads


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
