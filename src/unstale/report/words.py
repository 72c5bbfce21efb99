"""The results in words: what was trained on what, what came out, and what it cost."""

from collections.abc import Sequence

from unstale.report.entries import Group, corrected_group, headline, ranked, spoken
from unstale.report.escape import escape
from unstale.report.numbers import duration
from unstale.report.summary import gap_recovered
from unstale.results import JsonObject, number

MEMORISED = 0.25  # recall@1 on training queries less that on others, from which it is said


def key_figures(groups: Sequence[Group], summary: JsonObject) -> list[tuple[str, str]]:
    """Return the few numbers that matter, each with its caption."""
    metric, best = headline(groups), _best(groups)
    shown = corrected_group(groups) or best
    if shown is None or best is None:
        return []
    figures = []
    if (reached := shown.mean(metric)) is not None:
        caption = f"{spoken(metric)}, {escape(shown.name)}"
        if best is not shown:
            caption += f"; {escape(best.name)} reached {best.mean(metric) or 0:.1%}"
        figures.append((f"{reached:.1%}", caption))
    if gap := gap_recovered(summary, shown.strategy, metric):
        figures.append((f"{gap.value:.0%}", "of the gap from stale to exhaustive recovered"))
    if shown.trained:
        if (cost := shown.average(lambda run: run.targets_reembedded)) is not None:
            figures.append((f"{cost:,.0f}", "targets re-embedded during training"))
        if (took := shown.average(lambda run: run.training_seconds)) is not None:
            figures.append((duration(took).replace(" ", "&nbsp;"), "of training"))
    return figures


def sentences(
    groups: Sequence[Group], data: JsonObject, summary: JsonObject, settings: JsonObject
) -> list[str]:
    """Write the summary, a paragraph an item, escaped."""
    material = _material(groups, data, settings)
    outcome = (_outcome(groups), _memorised(groups), _gap(groups, summary))
    return [s for s in (material, *outcome, _held(groups), _cost(groups)) if s]


def _best(groups: Sequence[Group]) -> Group | None:
    return next((g for g in ranked(groups) if g.mean(headline(groups)) is not None), None)


def _stale(groups: Sequence[Group]) -> Group | None:
    return next((g for g in groups if g.strategy == "stale"), None)


def _title(group: Group) -> str:
    """Write a name as the first word of a sentence."""
    return escape(group.name[:1].upper() + group.name[1:])


def _material(groups: Sequence[Group], data: JsonObject, settings: JsonObject) -> str:
    runs = [run for g in groups for run in g.runs]
    split, steps = runs[0].split, sorted({run.steps for run in runs})
    words = f"Data: <strong>{escape(data.get('name') or 'unnamed')}</strong>"
    for key, what in (("targets", "targets"), ("train_pairs", "training pairs")):
        if (count := number(data.get(key))) is not None:
            words += f", {count:,.0f} {what}"
    tested = number(data.get(f"{split}_pairs"))
    pairs = "" if tested is None else f" ({tested:,.0f} pairs)"
    words += f"; measured on the {escape(split)} split{pairs}."
    if encoder := settings.get("model"):
        towers = f" with {escape(towers)} towers" if (towers := settings.get("towers")) else ""
        words += f" Encoder: <strong>{escape(encoder)}</strong>{towers}."
    if any(steps):
        many = "one strategy" if len(groups) == 1 else f"{len(groups)} strategies"
        counts = sorted({len(g.runs) for g in groups})
        fewest = f"{counts[0]} to " if len(counts) > 1 else ""
        batch = number(settings.get("batch_size"))
        seeds = "one seed" if counts == [1] else f"{fewest}{counts[-1]} seeds"
        words += f" Trained: {many}, {seeds} each"
        words += f", {' or '.join(f'{s:,}' for s in steps)} steps"
        words += f" of {batch:,.0f} queries." if batch is not None else "."
    return words


def _outcome(groups: Sequence[Group]) -> str:
    metric, best = headline(groups), _best(groups)
    if best is None:
        return ""
    reached, name = best.mean(metric) or 0.0, spoken(metric)
    name = f"an {name}" if name[0] in "aeiou" else f"a {name}"
    if not best.trained:
        return f"As it is, the encoder reaches {name} of <strong>{reached:.1%}</strong>."
    words = f"<strong>{escape(best.name)}</strong> "
    words += "came out best with" if len(groups) > 1 else "reached"
    words += f" {name} of <strong>{reached:.1%}</strong>"
    if (start := best.start(metric)) is not None:
        words += f", from {start:.1%} before training"
    words += "."
    corrected, stale = corrected_group(groups), _stale(groups)
    ours, theirs = (g.mean(metric) if g else None for g in (corrected, stale))
    if corrected and ours is not None and theirs is not None:
        side = "above" if ours >= theirs else "below"
        points = 100 * abs(ours - theirs)
        words += f" {_title(corrected)} negatives ended {points:.1f} points {side} stale ones."
    return words


def _memorised(groups: Sequence[Group]) -> str:
    """Say which strategies do far better on queries that they were trained on."""
    said = []
    for group in groups:
        known, new = group.average(lambda run: run.trained("recall@1")), group.mean("recall@1")
        if known is not None and new is not None and known - new >= MEMORISED:
            said.append(f"{escape(group.name)} ({known:.0%} and {new:.0%})")
    if not said:
        return ""
    split = escape(groups[0].runs[0].split)
    rule = f"a much higher recall@1 on training queries than on {split} queries"
    return f"Memorised training pairs, with {rule}: {', '.join(said)}."


def _gap(groups: Sequence[Group], summary: JsonObject) -> str:
    corrected, metric = corrected_group(groups), headline(groups)
    gap = gap_recovered(summary, corrected.strategy, metric) if corrected else None
    if not corrected or not gap:
        return ""
    between = ""
    if gap.low is not None and gap.high is not None:
        over = ", over queries alone: of one seed" if gap.one_seed else ""
        between = f" (95% interval: {gap.low:.0%} to {gap.high:.0%}{over})"
    return (
        f"{_title(corrected)} recovered <strong>{gap.value:.0%}</strong>{between} of the "
        f"gap in {spoken(metric)} between never re-embedding (stale) and re-embedding on a "
        "schedule (exhaustive)."
    )


def _held(groups: Sequence[Group]) -> str:
    """Say what the caches held at the end, with and without correction.

    A stale run has a cache and an encoder of its own, and its figure is that of the table. Without
    one, the corrected runs' own caches are the comparison.
    """
    corrected = [(g, seen) for g in groups if (seen := g.held("corrected")) is not None]
    stale = _stale(groups)
    if not corrected:
        return ""
    if stale and (held := stale.held("stale")) is not None:
        others = ", ".join(
            f"the {escape(g.name)} run's held <strong>{seen:.0%}</strong>" for g, seen in corrected
        )
        return (
            f"At the end of training the stale run's cache held {held:.0%} of the true nearest "
            f"targets; seen through the correction, {others}."
        )
    return " ".join(
        f"At the end of training the cache of {escape(g.name)} held {g.held('stale') or 0.0:.0%} "
        "of the true nearest targets as it was embedded; seen through the correction, the same "
        f"cache held <strong>{seen:.0%}</strong>."
        for g, seen in corrected
    )


def _cost(groups: Sequence[Group]) -> str:
    costs = {g.strategy: g.average(lambda run: run.targets_reembedded) for g in groups}
    known = [(g, c) for g in groups if g.trained and (c := costs[g.strategy]) is not None]
    words = ""
    if known and not any(cost for _, cost in known):
        words = "No target was re-embedded during training."
    elif known:
        most, least = max(known, key=lambda k: k[1]), min(known, key=lambda k: k[1])
        corrected = corrected_group(groups)
        shown, cost = next(((g, c) for g, c in known if g is corrected), least)
        words = f"{_title(shown)} re-embedded {cost:,.0f} targets"
        words += f", {escape(most[0].name)} {most[1]:,.0f}." if most[0] is not shown else "."
    for group in groups:
        if sampled := group.average(lambda run: run.targets_sampled):
            words += f" As a sample {escape(group.name)} encoded {sampled:,.0f}"
            words += " more." if costs[group.strategy] else "."
    total = [s for g in groups for run in g.runs if (s := run.total_seconds) is not None]
    if total:
        runs = "All runs together" if len(total) > 1 else "The run"
        words += f" {runs} took {duration(sum(total))}."
    return words.strip()
