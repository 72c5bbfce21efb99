"""Which settings make no sense, whatever the data and the model are? Nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import fields

from unstale.declare import check_bounds
from unstale.errors import InputError
from unstale.filters import Filters
from unstale.schedule import Schedule
from unstale.settings import (
    LengthSettings,
    MiningSettings,
    NegativeSettings,
    TrainSections,
)
from unstale.strategies import NegativeCounts, Traits


def check_alone(settings: MiningSettings, strategy: Traits | None, processes: int = 1) -> None:
    """Refuse values that are out of bounds, and settings that exclude each other.

    Both the command line, before anything else, and a run itself ask here.

    Args:
        strategy: What the settings must fit, unless it is of another package and not loaded yet.
        processes: How many of them share the work.
    """
    check_bounds(settings)
    if isinstance(settings, LengthSettings) and settings.steps and settings.epochs:
        both = f"--steps {settings.steps} and --epochs {settings.epochs}"
        raise InputError(f"{both}: use one of them")
    if any(width < 1 for width in settings.corrector_widths):
        raise InputError(
            f"--corrector-hidden needs widths of at least 1, got {settings.corrector_hidden}"
        )
    if settings.refresh_schedule is not None:
        Schedule.parse(settings.refresh_schedule)
        if settings.refresh_every is not None:
            raise InputError("use --refresh-every or --refresh-schedule, not both")
    for declared in fields(settings):
        if declared.name == "filters":
            filters = getattr(settings, declared.name)
            if not isinstance(filters, Filters):
                raise InputError(f"filters must be Filters(...), got {filters!r}")
            filters.check(1, declared.metadata.get("refused", ()))
    if isinstance(settings, NegativeSettings):
        check_dims(settings.matryoshka_dims, None)
    if strategy is not None:
        _check_processes(settings, strategy, processes)
        if isinstance(settings, TrainSections):
            _check_negatives(settings, strategy)


def _check_processes(settings: MiningSettings, strategy: Traits, processes: int) -> None:
    if processes > 1 and strategy.one_process:
        rule = "it needs the whole buffer in one process"
        raise InputError(f"{strategy.name} does not run in several processes: {rule}")
    if settings.mapped and (strategy.cache in ("rewritten", "later") or processes > 1):
        who = "several processes share" if processes > 1 else f"{strategy.name} writes to"
        raise InputError(f"--mapped leaves the buffer on disk, but {who} it; see --strategy")


def _check_negatives(settings: TrainSections, strategy: Traits) -> None:
    hard = negative_counts(settings, strategy).hard
    if strategy.adds_in_batch and not settings.share_candidates:
        rule = "its first stage has no negatives but the other queries' positives"
        raise InputError(f"{strategy.name} needs --share-candidates: {rule}")
    if 0 < settings.subset_size < hard:
        few = f"a subset of {settings.subset_size}"
        raise InputError(f"--subset-size: cannot take {hard} negatives from {few}")
    settings.filters.check(hard)
    check_filters(strategy, settings.filters, cross_encoder=bool(settings.cross_encoder))


def check_sizes(counts: NegativeCounts, targets: int, batch_size: int, pairs: int) -> None:
    """Refuse more negatives than the corpus has, and a batch larger than the training pairs."""
    if sum(counts) >= targets:
        rule = "use fewer --hard-negatives or --uniform-negatives"
        raise InputError(
            f"cannot take {sum(counts)} negatives a query from {targets} targets; {rule}"
        )
    if batch_size > pairs:
        have = f"there are {pairs}; use a smaller --batch-size"
        raise InputError(f"a batch of {batch_size} needs as many training pairs; {have}")


def check_given_negatives(count: int, there: int, data: str) -> None:
    """Refuse to train on negatives of the data if it has none."""
    if not there:
        rule = "leave out --given-negatives"
        raise InputError(f"{data} has no negatives of its own to take {count} from; {rule}")


def check_mined(count: int, targets: int) -> None:
    """Refuse to mine more negatives than the corpus has."""
    if not 1 <= count < targets:
        rule = f"use --hard-negatives from 1 to {targets - 1}"
        raise InputError(f"cannot mine {count} negatives from {targets} targets; {rule}")


def negative_counts(settings: NegativeSettings, strategy: Traits) -> NegativeCounts:
    """Return how many negatives of each kind a query gets, with the strategy's defaults."""
    if not any(strategy.negatives):
        return strategy.negatives
    chosen = (settings.hard_negatives, settings.uniform_negatives)
    usual = zip(chosen, strategy.negatives, strict=True)
    return NegativeCounts(*(default if value is None else value for value, default in usual))


def check_filters(strategy: Traits, filters: Filters, *, cross_encoder: bool) -> None:
    """Refuse filters for a strategy that has no scores to filter by."""
    if (cross_encoder or not filters.idle) and not strategy.views_all:
        rule = "it keeps no embedding of every target to score it by"
        raise InputError(f"{strategy.name} cannot filter false negatives: {rule}")


def check_dims(dims: Sequence[int], whole: int | None) -> None:
    """Refuse to train the first dimensions of embeddings that have fewer."""
    for dim in dims:
        if dim < 1 or (whole is not None and dim > whole):
            has = "it must be at least 1" if dim < 1 else f"the model has {whole} dimensions"
            raise InputError(f"--matryoshka-dims {dim}: {has}")


def check_towers(strategy: Traits, *, shared: bool) -> None:
    """Refuse to train one tower alone where both have the same weights."""
    if strategy.freezes_targets and shared:
        raise InputError(f"{strategy.name} needs separate towers (--towers separate)")
