"""Charts as inline SVG: lines over an axis, and rows of dots with whiskers.

Colours and fonts are the page's: a mark has a class (`tone-...`), never a colour. Coordinates are
pixels at the drawn width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from unstale.report.escape import escape
from unstale.report.scales import Scale, linear, linear_up_to, short

LEFT, TOP, BOTTOM = 44.0, 28.0, 42.0  # margins: tick labels, the y axis' name, ticks and x's name
_FEW = 12  # points of a line that can all be marked
_CHARACTER = 8.2  # width of a character at the charts' 12.5 pixels, in a wide font
_GAP, _ROW = 8.0, 15.0  # from a plot to its labels, and between two of them
_DOTS = 32.0  # height of a row of dots: a line of text, and the dot below it


@final
@dataclass(frozen=True)
class Line:
    """A line through points, with the range over seeds where there is one."""

    label: str
    tone: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()  # (x, low, high)


@final
@dataclass(frozen=True)
class Axes:
    """The words of a chart: its title, for who cannot see it, and the names of its axes."""

    title: str
    x_name: str
    y_name: str = ""


@final
@dataclass(frozen=True)
class Dot:
    """A value with its label, and half the length of its whisker."""

    label: str
    tone: str
    value: float
    whisker: float = 0.0


@final
@dataclass(frozen=True)
class _Frame:
    """The drawn area and its two scales: from values to pixels."""

    width: float
    height: float
    right: float  # margin, room for the labels of lines
    across: Scale
    up: Scale

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a value, from the left and from the top."""
        return (
            LEFT + self.across(x) * (self.width - LEFT - self.right),
            self.height - BOTTOM - self.up(y) * (self.height - TOP - BOTTOM),
        )


def line_chart(
    lines: Sequence[Line],
    size: tuple[float, float],
    axes: Axes,
    *,
    up: Scale | None = None,
    room: float | None = None,
) -> str:
    """Draw lines, each named at the right; `up` and `room`, for names, make charts comparable."""
    ends = [y for line in lines for _, *both in line.band for y in both]
    up = up or linear([*ends, *(y for line in lines for _, y in line.points)])
    last = max(x for line in lines for x, _ in line.points)
    room = room or _GAP + _CHARACTER * max(len(line.label) for line in lines)
    frame = _Frame(*size, room, linear_up_to(last), up)
    marks = [_band(line, frame) for line in lines if line.band]
    marks += [_path(line, frame) for line in lines]
    return _svg(frame, [*marks, *_names(lines, frame)], axes)


def dot_chart(dots: Sequence[Dot], width: float, axes: Axes) -> str:
    """Draw a row for each dot: its label, and the dot with its whisker below."""
    across = linear([d.value + side * d.whisker for d in dots for side in (-1, 1)])
    height = TOP + BOTTOM + _DOTS * len(dots)
    frame, marks = _Frame(width, height, 16.0, across, Scale(-float(len(dots)), 0.0)), []
    for i, dot in enumerate(dots):
        x, y = frame.at(dot.value, -i - 0.7)
        (low, _), (high, _) = (frame.at(dot.value + side * dot.whisker, 0.0) for side in (-1, 1))
        marks.append(_text(LEFT, y - 11, dot.label, f"name {dot.tone}"))
        marks.append(_segment(LEFT, y, width - 16.0, y, "grid"))
        marks.append(_segment(low, y, high, y, f"whisker {dot.tone}") if dot.whisker else "")
        marks.append(f'<circle class="dot {dot.tone}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
    return _svg(frame, marks, axes)


def apart(wanted: Sequence[float], gap: float, high: float) -> list[float]:
    """Move sorted places on until they are `gap` apart, and back from what is beyond `high`.

    Example:
        >>> apart([10.0, 12.0, 98.0, 99.0], 6.0, 100.0)
        [10.0, 16.0, 94.0, 100.0]
    """
    places = list(wanted)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    places[-1] = min(places[-1], high)
    for i in reversed(range(len(places) - 1)):
        places[i] = min(places[i], places[i + 1] - gap)
    return places


def _band(line: Line, frame: _Frame) -> str:
    there = [(x, low) for x, low, _ in line.band]
    back = [(x, high) for x, _, high in reversed(line.band)]
    return f'<polygon class="band {line.tone}" points="{_places(there + back, frame)}"/>'


def _path(line: Line, frame: _Frame) -> str:
    dots = ""
    for point in line.points if len(line.points) <= _FEW else line.points[-1:]:
        x, y = frame.at(*point)
        about = f"{escape(line.label)}: {point[1]:.4g} at {short(point[0])}"
        dots += f'<circle class="dot {line.tone}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
        dots += f"<title>{about}</title></circle>"
    return f'<polyline class="line {line.tone}" points="{_places(line.points, frame)}"/>{dots}'


def _places(points: Sequence[tuple[float, float]], frame: _Frame) -> str:
    return " ".join("{:.1f},{:.1f}".format(*frame.at(x, y)) for x, y in points)


def _names(lines: Sequence[Line], frame: _Frame) -> list[str]:
    """Name the lines at the right, apart, and lead from each end to its name."""
    ends = sorted(((frame.at(*line.points[-1]), line) for line in lines), key=lambda e: e[0][1])
    heights = apart([y for (_, y), _ in ends], _ROW, frame.height - BOTTOM)
    names, edge = [], frame.width - frame.right
    for ((x, y), line), height in zip(ends, heights, strict=True):
        if edge - x > 1 or abs(height - y) > 4:
            names.append(_segment(x + 4, y, edge + _GAP - 2, height, "leader"))
        names.append(_text(edge + _GAP, height + 4, line.label, f"name {line.tone}"))
    return names


def _svg(frame: _Frame, marks: Sequence[str], axes: Axes) -> str:
    base, end = frame.height - BOTTOM, frame.width - frame.right
    drawn = []
    for tick in frame.up.ticks:
        _, y = frame.at(0.0, tick)
        drawn.append(_segment(LEFT, y, end, y, "grid"))
        drawn.append(_text(LEFT - 8, y + 4, short(tick), "tick", "end"))
    for tick in frame.across.ticks:
        x, _ = frame.at(tick, frame.up.low)
        drawn.append(_segment(x, base, x, base + 4, "axis-line"))
        drawn.append(_text(x, base + 17, short(tick), "tick", "middle"))
    drawn.append(_segment(LEFT, base, end, base, "axis-line"))
    drawn.append(_text(2.0, 14.0, axes.y_name, "axis"))
    drawn.append(_text(end, frame.height - 6, axes.x_name, "axis", "end"))
    wide, high = f"{frame.width:.0f}", f"{frame.height:.0f}"
    return (
        f'<svg role="img" aria-label="{escape(axes.title)}" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" height="{high}">{"".join([*drawn, *marks])}</svg>'
    )


def _segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {where}>{escape(text)}</text>'
