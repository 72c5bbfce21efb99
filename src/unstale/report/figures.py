"""Which charts do these runs call for? Each function draws one, or nothing if there is no data."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from unstale.report.charts import Line, Point, dot_rows, line_chart, scatter
from unstale.report.entries import Group, average, headline, spoken, spread
from unstale.report.escape import escape
from unstale.report.labels import GAP, width
from unstale.report.scales import Linear, Symlog

WIDE, NARROW = 960.0, 328.0  # a page, a phone
_TONES = {"stale": "tone-stale", "corrected": "tone-corrected", "exhaustive": "tone-exhaustive"}


def tone(strategy: str) -> str:
    """Name a strategy's colour: three that matter have one each, variants and others share."""
    if strategy.startswith("corrected-") or strategy == "stale-rerank":
        return "tone-variant"
    return _TONES.get(strategy, "tone-other")


def tradeoff(groups: Sequence[Group]) -> str:
    """Draw recall against targets re-embedded, or the recall alone if nothing was re-embedded."""
    points = []
    metric = headline(groups)
    for group in groups:
        values, cost = group.metric(metric), average(group.of(lambda e: e.targets_reembedded))
        if values:
            sd = spread(values)
            whisker = None if sd is None else 100 * sd
            y = 100 * fmean(values)
            points.append(Point(group.name, tone(group.strategy), cost or 0.0, y, whisker))
    if not points:
        return ""
    if not any(p.x for p in points):
        return _recall_rows(groups, points)
    name = spoken(metric)
    title = f"{name} against targets re-embedded"

    def draw(size: tuple[float, float]) -> str:
        return scatter(
            points,
            size=size,
            title=title,
            x_name="targets re-embedded during training",
            y_name=f"{name}, %",
            across=Symlog.around([p.x for p in points]),
        )

    return both(lambda: draw((WIDE, 420.0)), lambda: draw((NARROW, 360.0)))


def _recall_rows(groups: Sequence[Group], points: Sequence[Point]) -> str:
    ranked = sorted(points, key=lambda p: -p.y)
    rows = [Point(p.label, p.tone, p.y, 0.0, p.spread) for p in ranked]
    metric = headline(groups)
    start = average(
        [v for g in groups for v in g.of(lambda e: e.initial_metrics.get(metric)) if _moved(g)]
    )
    if start is not None:
        rows.append(Point("before training", "tone-other", 100 * start, 0.0))
    name = spoken(metric)
    title = f"{name} of every strategy"

    def draw(across: float) -> str:
        return dot_rows(rows, across=across, title=title, x_name=f"{name}, %")

    return both(lambda: draw(WIDE * 2 / 3), lambda: draw(NARROW))


def _moved(group: Group) -> bool:
    return any(e.steps for e in group.entries)


def freshness(groups: Sequence[Group], reading: str) -> str:
    """Draw a reading over the steps, one panel a strategy: the stale view and the corrected one.

    Args:
        groups: The runs.
        reading: `overlap`, in percent and on 0..100, or `kl`.
    """
    percent = reading == "overlap"
    panels = []
    for group in groups:
        lines = []
        for view in ("stale", "corrected"):
            taken = group.readings(f"{reading}_{view}")
            if taken:
                lines.append(_line(view, f"tone-{view}", taken, 100.0 if percent else 1.0))
        if lines:
            panels.append((group.name, lines))
    if not panels:
        return ""
    values = [y for _, lines in panels for line in lines for _, y in line.points]
    edges = [v for _, lines in panels for n in lines for _, *ends in n.band for v in ends]
    # One scale for all panels, or they could not be compared.
    up = Linear(0.0, 100.0, 25.0) if percent else Linear.around([0.0, *values, *edges])
    y_name = "true top 10 found, %" if percent else "KL from the true softmax"
    room = GAP + max(width(line.label) for _, lines in panels for line in lines)
    drawn = []
    for name, lines in panels:
        title = f"{name}: {y_name} over the steps"
        chart = line_chart(
            lines,
            size=(NARROW, 230.0),
            title=title,
            x_name="step",
            y_name=y_name,
            up=up,
            room=room,
        )
        drawn.append(f"<figure><figcaption>{escape(name)}</figcaption>{chart}</figure>")
    return f'<div class="panels">{"".join(drawn)}</div>'


def curves(groups: Sequence[Group], against: str) -> str:
    """Draw recall during the runs, against `seconds` or `steps`; a mean over the seeds."""
    lines = []
    metric = headline(groups)
    for group in groups:
        measured = group.curve(metric)
        line = _line(group.name, tone(group.strategy), measured, 100.0)
        if against == "seconds":
            clock = {step: fmean(seconds) for step, seconds in group.curve("seconds")}
            timed = [(clock[x], y) for x, y in line.points if x in clock]
            line = Line(line.label, line.tone, sorted(timed))
        if line.points:
            lines.append(line)
    if not lines:
        return ""
    # Those that matter last, above the rest.
    lines.sort(key=lambda line: line.tone in _TONES.values())
    name = spoken(metric)
    title = f"{name} against {against}"

    # A phone has no room for many names: there the grey lines are company for the others.
    fewer = [replace(n, quiet=len(lines) > 5 and n.tone == "tone-other") for n in lines]

    def draw(drawn: Sequence[Line], size: tuple[float, float]) -> str:
        return line_chart(drawn, size=size, title=title, x_name=against, y_name=f"{name}, %")

    return both(lambda: draw(lines, (WIDE, 420.0)), lambda: draw(fewer, (NARROW, 380.0)))


def _line(
    label: str, kind: str, measured: Sequence[tuple[float, list[float]]], factor: float
) -> Line:
    points = [(x, factor * fmean(values)) for x, values in measured]
    several = any(len(values) > 1 for _, values in measured)
    band = [(x, factor * min(v), factor * max(v)) for x, v in measured] if several else []
    return Line(label, kind, points, band)


def both(wide: Callable[[], str], narrow: Callable[[], str]) -> str:
    """Draw twice, for a desk and for a phone: scaled text would be too small to read there."""
    return f'<div class="wide">{wide()}</div><div class="narrow">{narrow()}</div>'
