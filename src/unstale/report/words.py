"""The results in words: what was trained on what, what came out, and what it cost."""

from collections.abc import Sequence
from typing import Any

from unstale.report.entries import Group, average, headline, spoken
from unstale.report.escape import escape
from unstale.results import Record, number


def key_figures(groups: Sequence[Group], summary: Record) -> list[tuple[str, str]]:
    """Return the few numbers that matter, each with its caption."""
    best, corrected = best_group(groups), corrected_group(groups)
    shown = corrected or best
    if shown is None or best is None:
        return []
    figures = []
    metric = headline(groups)
    if (recall := shown.mean(metric)) is not None:
        caption = f"{spoken(metric)}, {escape(shown.name)}"
        if best is not shown:
            caption += f"; {escape(best.name)} reached {100 * (best.mean(metric) or 0):.1f}%"
        figures.append((f"{100 * recall:.1f}%", caption))
    if gap := gap_recovered(summary, shown.strategy, metric):
        caption = "of the gap from stale to exhaustive recovered"
        figures.append((f"{100 * gap[0]:.0f}%", caption))
    if trained(shown):
        if (cost := average(shown.of(lambda e: e.targets_reembedded))) is not None:
            figures.append((f"{cost:,.0f}", "targets re-embedded during training"))
        if (took := average(shown.of(lambda e: e.training_seconds))) is not None:
            figures.append((_unbroken(took), "of training"))
    return figures


def sentences(
    groups: Sequence[Group], data: Record, summary: Record, settings: Record
) -> list[str]:
    """Write the summary, a paragraph an item, escaped."""
    said = [
        _material(groups, data, settings),
        _outcome(groups),
        _gap(groups, summary),
        _seen(groups),
        _cost(groups),
    ]
    return [s for s in said if s]


def trained(group: Group) -> bool:
    """Tell whether a group was trained, not only measured."""
    return any(e.steps for e in group.entries)


def best_group(groups: Sequence[Group]) -> Group | None:
    """Find the strategy with the best mean recall."""
    metric = headline(groups)
    measured = [g for g in groups if g.mean(metric) is not None]
    return max(measured, key=lambda g: g.mean(metric) or 0.0, default=None)


def corrected_group(groups: Sequence[Group]) -> Group | None:
    """Find the paper's method among the runs."""
    return next((g for g in groups if g.strategy == "corrected"), None)


def gap_recovered(
    summary: Record, strategy: str, metric: str
) -> tuple[float, float | None, float | None] | None:
    """Return `(value, low, high)` of the gap between stale and exhaustive, if it is there."""
    value = number(look_up(summary, "gap_recovered", strategy, metric))
    if value is None:
        return None
    bounds = look_up(summary, "gap_recovered_interval", strategy, metric)
    low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
    return value, number(low), number(high)


def one_seed(summary: Record, strategy: str) -> bool:
    """Tell whether an interval leaves out how results vary from seed to seed."""
    return look_up(summary, "interval_seeds", strategy) == 1


def look_up(value: object, *path: str) -> Any:  # noqa: ANN401 - whatever JSON holds there
    """Follow keys into nested objects; None where there is nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def duration(seconds: float) -> str:
    """Write a time as a person would.

    Example:
        >>> [duration(s) for s in (0.42, 12.6, 252.0, 7860.0)]
        ['0.4 s', '13 s', '4 min 12 s', '2 h 11 min']
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def _unbroken(seconds: float) -> str:
    return duration(seconds).replace(" ", "&nbsp;")


def _material(groups: Sequence[Group], data: Record, settings: Record) -> str:
    entries = [e for g in groups for e in g.entries]
    split, steps = entries[0].split, sorted({e.steps for e in entries})
    counts = [
        f"{count:,.0f} {what}"
        for key, what in (("targets", "targets"), ("train_pairs", "training pairs"))
        if (count := number(data.get(key))) is not None
    ]
    tested = number(data.get(f"{split}_pairs"))
    words = f"Data: <strong>{escape(data.get('name') or 'unnamed')}</strong>"
    words += "".join(f", {count}" for count in counts)
    words += f"; measured on the {escape(split)} split"
    words += f" ({tested:,.0f} pairs)." if tested is not None else "."
    if encoder := settings.get("model"):
        towers = settings.get("towers")
        words += f" Encoder: <strong>{escape(encoder)}</strong>"
        words += f" with {escape(towers)} towers." if towers else "."
    if any(steps):
        many = "one strategy" if len(groups) == 1 else f"{len(groups)} strategies"
        words += f" Trained: {many}, {_seeds([len(g.entries) for g in groups])} each"
        words += f", {' or '.join(f'{s:,}' for s in steps)} steps"
        batch = number(settings.get("batch_size"))
        words += f" of {batch:,.0f} queries." if batch is not None else "."
    return words


def _seeds(counts: Sequence[int]) -> str:
    """Say how many seeds there are.

    Example:
        >>> _seeds([1, 1]), _seeds([3, 3]), _seeds([3, 1, 2])
        ('one seed', '3 seeds', '1 to 3 seeds')
    """
    fewest, most = min(counts), max(counts)
    if most == 1:
        return "one seed"
    return f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"


def _outcome(groups: Sequence[Group]) -> str:
    best = best_group(groups)
    if best is None:
        return ""
    metric = headline(groups)
    recall, name = best.mean(metric) or 0.0, spoken(metric)
    name = f"an {name}" if name[0] in "aeiou" else f"a {name}"
    if not trained(best):
        return f"As it is, the encoder reaches {name} of <strong>{100 * recall:.1f}%</strong>."
    words = f"<strong>{escape(best.name)}</strong> "
    words += "came out best with" if len(groups) > 1 else "reached"
    words += f" {name} of <strong>{100 * recall:.1f}%</strong>"
    if (start := average(best.of(lambda e: e.initial_metrics.get(metric)))) is not None:
        words += f", from {100 * start:.1f}% before training"
    corrected, stale = corrected_group(groups), _named(groups, "stale")
    words += "."
    if corrected and stale:
        ours, theirs = corrected.mean(metric), stale.mean(metric)
        if ours is not None and theirs is not None:
            gain = 100 * (ours - theirs)
            side = "above" if gain >= 0 else "below"
            words += f" Corrected negatives ended {abs(gain):.1f} points {side} stale ones."
    return words


def _gap(groups: Sequence[Group], summary: Record) -> str:
    corrected = corrected_group(groups)
    metric = headline(groups)
    gap = gap_recovered(summary, corrected.strategy, metric) if corrected else None
    if not corrected or not gap:
        return ""
    value, low, high = gap
    between = ""
    if low is not None and high is not None:
        over = ", over queries alone: of one seed" if one_seed(summary, corrected.strategy) else ""
        between = f" (95% interval: {100 * low:.0f}% to {100 * high:.0f}%{over})"
    return (
        f"The corrector recovered <strong>{100 * value:.0f}%</strong>{between} of the gap in "
        f"{spoken(metric)} between never re-embedding (stale) and re-embedding on a schedule "
        "(exhaustive)."
    )


def _seen(groups: Sequence[Group]) -> str:
    corrected = corrected_group(groups)
    if corrected is None:
        return ""
    ours = corrected.readings("overlap_corrected")
    theirs = corrected.readings("overlap_stale")
    if not ours or not theirs:
        return ""
    seen, blind = (100 * (average(readings[-1][1]) or 0.0) for readings in (ours, theirs))
    return (
        f"At the end of training the stale cache held {blind:.0f}% of the true nearest targets; "
        f"seen through the corrector, the same cache held <strong>{seen:.0f}%</strong>."
    )


def _cost(groups: Sequence[Group]) -> str:
    costs = [(g, average(g.of(lambda e: e.targets_reembedded))) for g in groups if trained(g)]
    known = [(g, c) for g, c in costs if c is not None]
    words = ""
    if known and not any(c for _, c in known):
        words = "No target was re-embedded during training."
    elif known:
        most, least = max(known, key=lambda k: k[1]), min(known, key=lambda k: k[1])
        corrected = corrected_group(groups)
        shown = next(((g, c) for g, c in known if g is corrected), least)
        words = f"{escape(shown[0].name)} re-embedded {shown[1]:,.0f} targets"
        words += f", {escape(most[0].name)} {most[1]:,.0f}." if most[0] is not shown[0] else "."
        words = words[0].upper() + words[1:]
    for group in groups:
        if sampled := average(group.of(lambda e: e.targets_sampled)):
            words += f" As a sample {escape(group.name)} encoded {sampled:,.0f}"
            words += " more." if average(group.of(lambda e: e.targets_reembedded)) else "."
    total = [v for g in groups for v in g.of(lambda e: e.total_seconds)]
    if total:
        runs = "All runs together" if len(total) > 1 else "The run"
        words += f" {runs} took {_unbroken(sum(total))}."
    return words.strip()


def _named(groups: Sequence[Group], strategy: str) -> Group | None:
    return next((g for g in groups if g.strategy == strategy), None)
