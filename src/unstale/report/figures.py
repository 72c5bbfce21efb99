"""Which charts do these runs call for? Each function draws one, or nothing if there is no data."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from unstale.report.charts import Axes, Line, Point, dot_rows, line_chart, scatter
from unstale.report.entries import Group, headline, spoken, spread
from unstale.report.escape import escape
from unstale.report.labels import GAP, width
from unstale.report.scales import Linear, Symlog

_WIDE, _NARROW = 960.0, 328.0  # a page, a phone


def tradeoff(groups: Sequence[Group]) -> str:
    """Draw recall against targets re-embedded, or the recall alone if nothing was re-embedded."""
    metric = headline(groups)
    name = spoken(metric)
    points = []
    for group in groups:
        if values := group.metric(metric):
            cost, sd = group.average(lambda run: run.targets_reembedded), spread(values)
            whisker = None if sd is None else 100 * sd
            points.append(Point(group.name, group.tone, cost or 0.0, 100 * fmean(values), whisker))
    if not points:
        return ""
    if any(p.x for p in points):
        axes = Axes(
            f"{name} against targets re-embedded",
            "targets re-embedded during training",
            f"{name}, %",
        )
        across = Symlog.around([p.x for p in points])
        wide = scatter(points, (_WIDE, 420.0), axes, across)
        return _both(wide, scatter(points, (_NARROW, 360.0), axes, across))
    rows = [replace(p, x=p.y, y=0.0) for p in sorted(points, key=lambda p: -p.y)]
    started = [run.initial_metrics for g in groups if g.trained for run in g.runs]
    if starts := [start[metric] for start in started if metric in start]:
        rows.append(Point("before training", "tone-other", 100 * fmean(starts), 0.0))
    axes = Axes(f"{name} of every strategy", f"{name}, %")
    return _both(dot_rows(rows, _WIDE * 2 / 3, axes), dot_rows(rows, _NARROW, axes))


def freshness(groups: Sequence[Group], reading: str) -> str:
    """Draw a reading over the steps, one panel a strategy: the stale view and the corrected one.

    Args:
        groups: The runs.
        reading: `overlap`, in percent and on 0..100, or `kl`.
    """
    percent = reading == "overlap"
    panels = []
    for group in groups:
        lines = [
            _line(view, f"tone-{view}", taken, 100.0 if percent else 1.0)
            for view in ("stale", "corrected")
            if (taken := group.readings(f"{reading}_{view}"))
        ]
        if lines:
            panels.append((group.name, lines))
    if not panels:
        return ""
    drawn = [line for _, lines in panels for line in lines]
    values = [y for line in drawn for y in line.heights()]
    # One scale for all panels, or they could not be compared.
    up = Linear(0.0, 100.0, 25.0) if percent else Linear.around([0.0, *values])
    room = GAP + max(width(line.label) for line in drawn)
    y_name = "true top 10 found, %" if percent else "KL from the true softmax"
    figures = ""
    for name, lines in panels:
        axes = Axes(f"{name}: {y_name} over the steps", "step", y_name)
        chart = line_chart(lines, (_NARROW, 230.0), axes, up=up, room=room)
        figures += f"<figure><figcaption>{escape(name)}</figcaption>{chart}</figure>"
    return f'<div class="panels">{figures}</div>'


def curves(groups: Sequence[Group], against: str) -> str:
    """Draw recall during the runs, against `seconds` or `steps`; a mean over the seeds."""
    lines, metric = [], headline(groups)
    for group in groups:
        line = _line(group.name, group.tone, group.curve(metric), 100.0)
        if against == "seconds":
            clock = {step: fmean(seconds) for step, seconds in group.curve("seconds")}
            timed = [(clock[x], y) for x, y in line.points if x in clock]
            line = replace(line, points=sorted(timed), band=())
        if line.points:
            lines.append(line)
    if not lines:
        return ""
    # Those that matter last, above the rest.
    lines.sort(key=lambda line: line.tone not in ("tone-other", "tone-variant"))
    # A phone has no room for many names: there the grey lines are company for the others.
    fewer = [replace(n, quiet=len(lines) > 5 and n.tone == "tone-other") for n in lines]
    name = spoken(metric)
    axes = Axes(f"{name} against {against}", against, f"{name}, %")
    wide = line_chart(lines, (_WIDE, 420.0), axes)
    return _both(wide, line_chart(fewer, (_NARROW, 380.0), axes))


def _line(
    label: str, tone: str, measured: Sequence[tuple[float, list[float]]], factor: float
) -> Line:
    points = [(x, factor * fmean(values)) for x, values in measured]
    several = any(len(values) > 1 for _, values in measured)
    band = [(x, factor * min(v), factor * max(v)) for x, v in measured] if several else []
    return Line(label, tone, points, band)


def _both(wide: str, narrow: str) -> str:
    """Show a chart drawn twice: on a phone, the scaled text of a wide one is too small to read."""
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
