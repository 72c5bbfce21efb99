"""Every strategy by its name: what it needs, and how to build its miner."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.losses import LossName
from unstale.corrector.network import Corrector
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
    Refreshed,
    Schedule,
    Stale,
    Stochastic,
    Uniform,
)
from unstale.search.auto import Choice, choose_on_device, make_search
from unstale.search.low_memory import RotatingSubset, StaleRerank
from unstale.search.search import Search
from unstale.search.sharded import search_in_place
from unstale.training.recipe import Recipe


@final
@dataclass(frozen=True)
class Strategy:
    """A way to choose the candidates.

    `buffered`: needs the corpus embedded, and uniform targets join what it mines. `frozen`: the
    target tower is not trained. `corrects`: trains a corrector by the chosen loss. `sees`: shows a
    view of the targets to filter by. `part`: searches a subset. `searches`: how it searches can be
    chosen. `alone`: needs the whole buffer in one process. `lean`: leaves it on disk. `writes`:
    writes to it.
    `hard`, `uniform`, `free`: how many negatives of each kind a query has, unless told.
    `scheduled`: acts at set steps, so that it must know how many there will be.
    """

    build: Callable[[Recipe], Miner]
    buffered: bool = True
    frozen: bool = False
    corrects: bool = False
    sees: bool = True
    part: bool = False
    searches: bool = False
    alone: bool = False
    lean: bool = False
    writes: bool = False
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
    choice = recipe.search
    if not isinstance(choice, Choice):
        size = len(buffer), buffer.dim, recipe.corrector_hidden, recipe.batch_size
        choice = choose_on_device(choice, *size, buffer.device)
    return make_search(choice, buffer, network, seed=recipe.seed)


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
    "in-batch": Strategy(lambda r: InBatch(), buffered=False, sees=False),
    "uniform": Strategy(
        lambda r: Uniform(r.targets, r.seed, r.uniform_negatives),  # its company is its own kind
        buffered=False,
        sees=False,
    ),
    "stale": Strategy(lambda r: Stale(r.cache, r.gumbel)),
    "stale-frozen": Strategy(lambda r: Stale(r.cache, r.gumbel), frozen=True),
    "exhaustive": Strategy(
        lambda r: Refreshed(r.cache, r.schedule, r.gumbel), writes=True, scheduled=True
    ),
    "stochastic": Strategy(_stochastic, sees=False, scheduled=True),
    "two-round": Strategy(
        lambda r: Refreshed(r.cache, Schedule.inside(1, r.steps), r.gumbel),
        writes=True,
        scheduled=True,
    ),
    "dynnibal": Strategy(_dynnibal, alone=True, writes=True, scheduled=True),
    "auto-refresh": Strategy(
        lambda r: AutoRefreshed(r.cache, r.refresh_below, r.gumbel), writes=True
    ),
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
    if strategy.buffered and recipe.uniform_negatives:
        miner = Mixed(miner, Uniform(recipe.targets, recipe.seed), recipe.uniform_negatives)
    if recipe.given is not None and recipe.given_negatives:
        miner = Mixed(miner, Given(recipe.given, recipe.seed), recipe.given_negatives)
    return miner
