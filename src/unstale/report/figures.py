"""Which charts do these runs call for? Each function draws one, or nothing if there is no data."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from unstale.report.charts import Axes, Dot, Line, dot_chart, line_chart
from unstale.report.entries import Group, headline, ranked, spoken
from unstale.report.escape import escape
from unstale.report.numbers import percent, spread
from unstale.report.scales import Scale

# Drawn for a phone, where text must be large enough; the style sheet enlarges a chart on a page.
_WIDE, _PANEL = (380.0, 290.0), (328.0, 230.0)
_ROOM = 120.0  # for the words "training queries" beside a panel, whether they are there or not


def by_strategy(groups: Sequence[Group]) -> str:
    """Draw what each strategy reached, best first, beside what it re-embedded for that."""
    metric, dots = headline(groups), []
    paid = any(run.targets_reembedded for group in groups for run in group.runs)
    for group in ranked(groups):
        if values := group.metric(metric):
            label = f"{group.name}: {percent(values)}"
            if paid:
                cost = group.average(lambda run: run.targets_reembedded) or 0.0
                label += f", {cost:,.0f} re-embedded"
            dots.append(Dot(label, group.tone, 100 * fmean(values), 100 * (spread(values) or 0.0)))
    if not dots:
        return ""
    started = [run.initial_metrics for g in groups if g.trained for run in g.runs]
    if starts := [start[metric] for start in started if metric in start]:
        mean = fmean(starts)
        dots.append(Dot(f"before training: {percent([mean])}", "tone-other", 100 * mean))
    name = spoken(metric)
    return _chart(dot_chart(dots, _WIDE[0], Axes(f"{name} of every strategy", f"{name}, %")))


def freshness(groups: Sequence[Group]) -> str:
    """Draw what the caches held over the steps, one panel a strategy: stale and corrected."""
    panels = {}
    for group in groups:
        lines = [
            _line(view, f"tone-{view}", taken)
            for view in ("stale", "corrected")
            if (taken := group.readings(f"overlap_{view}"))
        ]
        if lines:
            panels[group.name] = lines
    return _panels(panels, "true top 10 found, %")


def losses(groups: Sequence[Group]) -> str:
    """Draw the training loss over the steps, a line a strategy; a mean over the seeds."""
    lines = [
        Line(group.name, group.tone, [(step, fmean(values)) for step, values in taken])
        for group in groups
        if (taken := group.losses())
    ]
    if not lines:
        return ""
    return _chart(line_chart(lines, _WIDE, Axes("training loss over the steps", "step", "loss")))


def memorising(groups: Sequence[Group]) -> str:
    """Draw recall over the steps, one panel a strategy: on the split and on training queries."""
    metric, panels = headline(groups), {}
    for group in groups:
        if on_training := group.curve(f"train_{metric}"):
            panels[group.name] = [
                _line(f"{group.runs[0].split} queries", group.tone, group.curve(metric)),
                _line("training queries", "tone-variant", on_training),
            ]
    return _panels(panels, f"{spoken(metric)}, %")


def curves(groups: Sequence[Group], against: str) -> str:
    """Draw recall during the runs, against `seconds` or `steps`; a mean over the seeds."""
    lines, metric = [], headline(groups)
    for group in groups:
        line = _line(group.name, group.tone, group.curve(metric))
        if against == "seconds":
            clock = {step: fmean(seconds) for step, seconds in group.curve("seconds")}
            timed = [(clock[x], y) for x, y in line.points if x in clock]
            line = Line(line.label, line.tone, sorted(timed))
        if line.points:
            lines.append(line)
    if not lines:
        return ""
    # Those that matter last, above the rest.
    lines.sort(key=lambda line: line.tone not in ("tone-other", "tone-variant"))
    name = spoken(metric)
    return _chart(
        line_chart(lines, _WIDE, Axes(f"{name} against {against}", against, f"{name}, %"))
    )


def _panels(panels: Mapping[str, Sequence[Line]], name: str) -> str:
    """Draw a chart of percentages over the steps for each strategy, all on one scale."""
    up, figures = Scale(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0)), ""
    for strategy, lines in panels.items():
        axes = Axes(f"{strategy}: {name} over the steps", "step", name)
        chart = line_chart(lines, _PANEL, axes, up=up, room=_ROOM)
        figures += f"<figure><figcaption>{escape(strategy)}</figcaption>{chart}</figure>"
    return f'<div class="panels">{figures}</div>' if figures else ""


def _line(label: str, tone: str, measured: Sequence[tuple[float, list[float]]]) -> Line:
    """Make a line of shares over the seeds, in percent."""
    points = [(x, 100 * fmean(values)) for x, values in measured]
    several = any(len(values) > 1 for _, values in measured)
    band = [(x, 100 * min(v), 100 * max(v)) for x, v in measured] if several else []
    return Line(label, tone, points, band)


def _chart(svg: str) -> str:
    return f'<div class="chart">{svg}</div>'
