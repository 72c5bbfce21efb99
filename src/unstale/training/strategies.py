"""Every strategy by its name: what it needs, and how to build its miner."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, final

import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer, ShardedBuffer
from unstale.corrector.losses import LossName
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.data.dataset import ByQuery
from unstale.errors import InputError
from unstale.miners import (
    AutoRefreshed,
    Corrected,
    Dynnibal,
    Filtered,
    Filters,
    Given,
    InBatch,
    Miner,
    Mixed,
    PairScores,
    Refreshed,
    Schedule,
    Stale,
    Stochastic,
    Uniform,
)
from unstale.search.auto import Mode, make_search
from unstale.search.draws import Gumbel
from unstale.search.exact import Search
from unstale.search.rerank import StaleRerank
from unstale.search.sharded import search_in_place
from unstale.search.subset import RotatingSubset
from unstale.search.vectors import Precision

Sampling = Literal["top-k", "gumbel"]
_LOG = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class Recipe:
    """What a miner may be built from; each strategy takes what it needs.

    Args:
        targets: N, the size of the corpus.
        buffer: The stale embeddings, of strategies that have any: in memory, or on disk if lean.
        steps: Length of the run.
        seed: Keys every random draw.
        scale: The paper's beta.
        uniform_negatives: Uniform targets added for each query.
        given: The hard negatives that the data came with.
        given_negatives: So many of them added for each query.
        sampling: `top-k` or `gumbel`.
        corrector_hidden: Widths of the corrector's hidden layers.
        corrector_loss: `ce` or `mse`.
        corrector_anchor: Weight of the mean-squared error beside the cross-entropy; 0: the paper's.
        memory: Remember what the corrector missed of each target; off: the paper's.
        refresh: Atlas's schedule (`0-1000:500,...`) or a number of refreshes over the run.
        full_refreshes: Full re-embeddings of dynnibal, spread over the run.
        subset_size: Targets that stochastic and corrected-subset hold; 0 for a twentieth.
        sample_size: Targets that dynnibal embeds at each refit; 0 for a twentieth.
        rank: Rank of dynnibal's regression.
        rerank_depth: L of stale-rerank.
        search: How to search h(B), or `auto`.
        batch_size: Queries that are searched at once, by which `auto` chooses.
        filters: What may be a false negative.
        veto: A cross-encoder that is asked, too.
        precision: Of the snapshot of such a search; by default what fits in memory.
        refresh_below: The overlap under which auto-refresh re-embeds.
        fallback: Mine without the corrector while the meter finds it worse than none.
        device: Where a corrector is; by default where the buffer is.
    """

    targets: int
    buffer: Buffer | None
    steps: int
    seed: int = 0
    scale: float = 20.0
    uniform_negatives: int = 0
    given: ByQuery | None = None
    given_negatives: int = 0
    sampling: Sampling = "top-k"
    corrector_hidden: tuple[int, ...] = (768,)
    corrector_loss: LossName = "ce"
    corrector_anchor: float = 1.0
    memory: bool = True
    refresh: str | int = 80
    full_refreshes: int = 2
    subset_size: int = 0
    sample_size: int = 0
    rank: int = 64
    rerank_depth: int = 256
    search: Mode = "auto"
    batch_size: int = 64
    filters: Filters = field(default_factory=Filters)
    veto: PairScores | None = None
    precision: Precision | None = None
    refresh_below: float = 0.9
    fallback: bool = True
    device: torch.device | None = None

    @property
    def residuals(self) -> ResidualMemory | None:
        """Return the memory of a corrector that has one; it fades over a run's length."""
        if not self.memory:
            return None
        rows, first = self.targets, 0
        if isinstance(self.cache, ShardedBuffer):
            rows, first = len(self.cache.local), self.cache.start
        memory = ResidualMemory(rows, self.cache.dim, fade=self.steps, first=first)
        return memory.to(self.cache.device)

    @property
    def schedule(self) -> Schedule:
        """Return when to refresh: by default 80 times a run, as the paper."""
        if isinstance(self.refresh, int):
            return Schedule.evenly(self.refresh, self.steps)
        return Schedule.parse(self.refresh)

    @property
    def twentieth(self) -> int:
        """Return the paper's share for a subset, 1M of 21M targets; of few targets, more."""
        return max(self.targets // 20, min(self.targets, 256))

    @property
    def gumbel(self) -> Gumbel | None:
        """Return the noise of Gumbel-max sampling, or None for a plain top-k."""
        return Gumbel(self.seed, self.scale) if self.sampling == "gumbel" else None

    @property
    def cache(self) -> Buffer:
        """Return the buffer of a strategy that has one."""
        assert self.buffer is not None
        return self.buffer

    @property
    def whole(self) -> TargetBuffer:
        """Return the buffer of a strategy that needs it in one process."""
        assert isinstance(self.buffer, TargetBuffer)
        return self.buffer


@final
@dataclass(frozen=True)
class Strategy:
    """A way to choose the candidates.

    `buffered`: needs the corpus embedded. `frozen`: the target tower is not trained.
    `mixes`: uniform targets are added to what it mines. `corrects`: trains a corrector by the
    chosen loss. `sees`: shows a view of the targets to filter by. `part`: searches a subset.
    `searches`: how it searches can be chosen. `alone`: needs the whole buffer in one process.
    `lean`: leaves it on disk.
    `hard`, `uniform`, `free`: how many negatives of each kind a query has, unless told.
    `scheduled`: acts at set steps, so that it must know how many there will be.
    """

    build: Callable[[Recipe], Miner]
    buffered: bool = True
    frozen: bool = False
    mixes: bool = True
    corrects: bool = False
    sees: bool = True
    part: bool = False
    searches: bool = False
    alone: bool = False
    lean: bool = False
    hard: int = 4
    uniform: int = 1
    free: int = 0
    scheduled: bool = False


def _corrected(
    recipe: Recipe,
    search: Callable[[Corrector], Search] | None = None,
    loss: LossName | None = None,
) -> Miner:
    device = recipe.device or recipe.cache.device
    network = Corrector(recipe.cache.dim, recipe.corrector_hidden).to(device)
    if search is None:
        chosen = search_in_place(recipe.cache, lambda part: _chosen(recipe, part, network))
    else:
        chosen = search(network)
    return Corrected(
        recipe.cache,
        network,
        scale=recipe.scale,
        loss=loss or recipe.corrector_loss,
        anchor=recipe.corrector_anchor,
        memory=recipe.residuals,
        search=chosen,
        gumbel=recipe.gumbel,
        fallback=recipe.fallback,
    )


def _chosen(recipe: Recipe, buffer: TargetBuffer, network: Corrector) -> Search:
    made, choice = make_search(
        recipe.search,
        buffer,
        network,
        queries=recipe.batch_size,
        seed=recipe.seed,
        precision=recipe.precision,
    )
    if choice.mode != "exact":  # an approximation is never taken in silence
        _LOG.warning("search: %s, a snapshot in %s: %s", *choice)
    return made


def _corrected_subset(recipe: Recipe) -> Miner:
    def rotating(network: Corrector) -> Search:
        size, every = recipe.subset_size or recipe.twentieth, max(1, recipe.steps // 80)
        return RotatingSubset(recipe.whole, network, size=size, every=every, seed=recipe.seed)

    return _corrected(recipe, rotating)


def _dynnibal(recipe: Recipe) -> Miner:
    return Dynnibal(
        recipe.whole,
        refits=recipe.schedule,
        # Inside the run, not at its end: with 2, after a third and two thirds.
        refreshes=Schedule.inside(recipe.full_refreshes, recipe.steps),
        sample=recipe.sample_size or recipe.twentieth,
        rank=recipe.rank,
        seed=recipe.seed,
        gumbel=recipe.gumbel,
    )


def _stochastic(recipe: Recipe) -> Miner:
    return Stochastic(
        recipe.cache,
        recipe.schedule,
        size=recipe.subset_size or recipe.twentieth,
        seed=recipe.seed,
        gumbel=recipe.gumbel,
    )


STRATEGIES: dict[str, Strategy] = {
    "in-batch": Strategy(lambda r: InBatch(), buffered=False, mixes=False, sees=False),
    "uniform": Strategy(lambda r: Uniform(r.targets, r.seed), buffered=False, sees=False),
    "stale": Strategy(lambda r: Stale(r.cache, r.gumbel)),
    "stale-frozen": Strategy(lambda r: Stale(r.cache, r.gumbel), frozen=True),
    "exhaustive": Strategy(lambda r: Refreshed(r.cache, r.schedule, r.gumbel), scheduled=True),
    "stochastic": Strategy(_stochastic, sees=False, scheduled=True),
    "two-round": Strategy(
        lambda r: Refreshed(r.cache, Schedule.inside(1, r.steps), r.gumbel), scheduled=True
    ),
    "dynnibal": Strategy(_dynnibal, alone=True, scheduled=True),
    "auto-refresh": Strategy(lambda r: AutoRefreshed(r.cache, r.refresh_below, r.gumbel)),
    "corrected": Strategy(_corrected, corrects=True, searches=True),
    "corrected-free": Strategy(_corrected, corrects=True, searches=True, hard=0, uniform=0, free=4),
    "corrected-mse": Strategy(lambda r: _corrected(r, loss="mse"), searches=True),
    "corrected-subset": Strategy(
        _corrected_subset, corrects=True, part=True, alone=True, lean=True, scheduled=True
    ),
    "stale-rerank": Strategy(
        lambda r: _corrected(r, lambda h: StaleRerank(r.whole, h, r.rerank_depth)),
        corrects=True,
        alone=True,
        lean=True,
    ),
}


def find_strategy(name: str) -> Strategy:
    """Look a strategy up, or list those there are."""
    if name not in STRATEGIES:
        raise InputError(f"unknown strategy {name!r}; choose from {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def check_filters(name: str, filters: Filters, *, veto: bool) -> None:
    """Refuse filters for a strategy that has no scores to filter by."""
    if (veto or not filters.idle) and not find_strategy(name).sees:
        rule = "it keeps no embedding of every target to score it by"
        raise InputError(f"{name} cannot filter false negatives: {rule}")


def build_miner(name: str, recipe: Recipe) -> Miner:
    """Build a strategy's miner, with its filters and its company."""
    strategy = find_strategy(name)
    check_filters(name, recipe.filters, veto=recipe.veto is not None)
    miner = strategy.build(recipe)
    if not recipe.filters.idle or recipe.veto is not None:
        reach = recipe.subset_size or recipe.twentieth if strategy.part else recipe.targets
        miner = Filtered(miner, recipe.filters, reach, recipe.veto)
    if strategy.mixes and recipe.uniform_negatives:
        uniform = Uniform(recipe.targets, recipe.seed)
        miner = Mixed(miner, uniform, recipe.uniform_negatives)
    if recipe.given is not None and recipe.given_negatives:
        miner = Mixed(miner, Given(recipe.given, recipe.seed), recipe.given_negatives)
    return miner
