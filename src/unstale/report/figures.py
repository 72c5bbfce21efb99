"""Which charts do these runs call for? Each function draws one, or nothing if there is no data."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from unstale.report.charts import BOTTOM, TOP, Axes, Line, Point, line_chart, scatter
from unstale.report.entries import Group, headline, ranked, spoken
from unstale.report.escape import escape
from unstale.report.labels import GAP, width
from unstale.report.numbers import percent, spread
from unstale.report.scales import Scale, linear, symlog

# Drawn for a phone, where text must be large enough; the style sheet enlarges a chart on a page.
_WIDE, _PANEL, _ROW = (380.0, 290.0), (328.0, 230.0), 24.0


def tradeoff(groups: Sequence[Group]) -> str:
    """Draw recall against targets re-embedded, or the recall alone if nothing was re-embedded."""
    metric, points = headline(groups), []
    for group in ranked(groups):
        if values := group.metric(metric):
            cost = group.average(lambda run: run.targets_reembedded) or 0.0
            mean, sd = 100 * fmean(values), 100 * (spread(values) or 0.0)
            about = f"{group.name}: {percent(values)}"
            points.append(Point(group.name, group.tone, cost, mean, about, (0.0, sd)))
    if not points:
        return ""
    name = spoken(metric)
    if any(p.x for p in points):
        axis = "targets re-embedded during training"
        axes = Axes(f"{name} against targets re-embedded", axis, f"{name}, %")
        edges = [p.y + side * p.whisker[1] for p in points for side in (-1, 1)]
        margin = (max(edges) - min(edges)) / 20  # no point on the axis itself
        up = linear([min(edges) - margin, max(edges) + margin])
        return _chart(scatter(points, _WIDE, axes, symlog([p.x for p in points]), up))
    started = [run.initial_metrics for g in groups if g.trained for run in g.runs]
    if starts := [start[metric] for start in started if metric in start]:
        about = f"before training: {percent([fmean(starts)])}"
        points.append(Point("", "tone-other", 0.0, 100 * fmean(starts), about))
    rows = [
        Point(p.about, p.tone, p.y, -float(i), p.about, (p.whisker[1], 0.0))
        for i, p in enumerate(points)
    ]
    across = linear([p.x + side * p.whisker[0] for p in rows for side in (-1, 1)])
    size = (_WIDE[0], TOP + BOTTOM + _ROW * len(rows))
    axes = Axes(f"{name} of every strategy", f"{name}, %")
    return _chart(scatter(rows, size, axes, across, Scale(0.5 - len(rows), 0.5)))


def freshness(groups: Sequence[Group], reading: str) -> str:
    """Draw a reading over the steps, one panel a strategy: the stale view and the corrected one.

    Args:
        groups: The runs.
        reading: `overlap`, in percent and on 0..100, or `kl`.
    """
    percents = reading == "overlap"
    panels = {}
    for group in groups:
        measured = {view: group.readings(f"{reading}_{view}") for view in ("stale", "corrected")}
        panels[group.name] = [
            _line(view, f"tone-{view}", taken, 100.0 if percents else 1.0)
            for view, taken in measured.items()
            if taken
        ]
    y_name = "true top 10 found, %" if percents else "KL from the true softmax"
    return _panels(panels, y_name, most=100.0 if percents else None)


def memorising(groups: Sequence[Group]) -> str:
    """Draw recall over the steps, one panel a strategy: on the split and on training queries."""
    metric, panels = headline(groups), {}
    for group in groups:
        if on_training := group.curve(f"train_{metric}"):
            panels[group.name] = [
                _line(f"{group.runs[0].split} queries", group.tone, group.curve(metric), 100.0),
                _line("training queries", "tone-variant", on_training, 100.0),
            ]
    return _panels(panels, f"{spoken(metric)}, %", most=100.0)


def curves(groups: Sequence[Group], against: str) -> str:
    """Draw recall during the runs, against `seconds` or `steps`; a mean over the seeds."""
    lines, metric = [], headline(groups)
    for group in groups:
        line = _line(group.name, group.tone, group.curve(metric), 100.0)
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


def _panels(panels: Mapping[str, Sequence[Line]], y_name: str, *, most: float | None) -> str:
    """Draw a chart for each strategy that has lines, all on one scale: from 0 to `most`, if set."""
    drawn = [line for lines in panels.values() for line in lines]
    if not drawn:
        return ""
    # One scale for all panels, or they could not be compared.
    up = linear([0.0, *(y for line in drawn for y in line.heights())])
    if most is not None:
        up = Scale(0.0, most, tuple(most * i / 4 for i in range(5)))
    room = GAP + max(width(line.label) for line in drawn)
    figures = ""
    for name, lines in panels.items():
        if lines:
            axes = Axes(f"{name}: {y_name} over the steps", "step", y_name)
            chart = line_chart(lines, _PANEL, axes, up=up, room=room)
            figures += f"<figure><figcaption>{escape(name)}</figcaption>{chart}</figure>"
    return f'<div class="panels">{figures}</div>'


def _line(
    label: str, tone: str, measured: Sequence[tuple[float, list[float]]], factor: float
) -> Line:
    points = [(x, factor * fmean(values)) for x, values in measured]
    several = any(len(values) > 1 for _, values in measured)
    band = [(x, factor * min(v), factor * max(v)) for x, v in measured] if several else []
    return Line(label, tone, points, band)


def _chart(svg: str) -> str:
    return f'<div class="chart">{svg}</div>'
