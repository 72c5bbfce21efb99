"""Charts as inline SVG: lines over an axis, and points with whiskers.

Colours and fonts are the page's: a mark has a class (`tone-...`), never a colour. Coordinates are
pixels at the drawn width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from unstale.report.escape import plain
from unstale.report.labels import GAP, place_labels, width
from unstale.report.scales import Scale, linear, linear_up_to, short

LEFT, TOP, BOTTOM = 44.0, 28.0, 42.0  # margins: tick labels, the y axis' name, ticks and x's name
_FEW = 12  # points of a line that can all be marked


@final
@dataclass(frozen=True)
class Line:
    """A line through points, with the range over seeds where there is one."""

    label: str
    tone: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()  # (x, low, high)

    def heights(self) -> list[float]:
        """List everything that the axis must hold."""
        return [y for _, y in self.points] + [y for _, *ends in self.band for y in ends]


@final
@dataclass(frozen=True)
class Axes:
    """The words of a chart: its title, for who cannot see it, and the names of its axes."""

    title: str
    x_name: str
    y_name: str = ""


@final
@dataclass(frozen=True)
class Point:
    """A point, what appears on hovering, and half the length of its whisker across and up."""

    label: str
    tone: str
    x: float
    y: float
    about: str = ""
    whisker: tuple[float, float] = (0.0, 0.0)


@final
@dataclass(frozen=True)
class Frame:
    """The drawn area and its two scales: from values to pixels.

    Example:
        >>> frame = Frame(200.0, 170.0, 56.0, Scale(0.0, 10.0), Scale(0.0, 1.0))
        >>> frame.at(5.0, 1.0), frame.at(0.0, 0.0)  # 44 + (200 - 44 - 56) / 2, top; 170 - 42
        ((94.0, 28.0), (44.0, 128.0))
    """

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
    """Draw lines, each named at its end; `up` and `room`, for names, make charts comparable."""
    up = up or linear([y for line in lines for y in line.heights()])
    last = max(x for line in lines for x, _ in line.points)
    room = room or max(width(line.label) for line in lines) + GAP
    frame = Frame(*size, room, linear_up_to(last), up)
    marks = [_band(line, frame) for line in lines if line.band]
    marks += [_path(line, frame) for line in lines]
    ends = [Point(line.label, line.tone, *line.points[-1]) for line in lines]
    return _svg(frame, [*marks, *_names(frame, ends, size[0])], axes)


def scatter(
    points: Sequence[Point], size: tuple[float, float], axes: Axes, across: Scale, up: Scale
) -> str:
    """Draw named points with whiskers."""
    frame, marks = Frame(*size, 16.0, across, up), []
    for p in points:
        (x, y), (dx, dy) = frame.at(p.x, p.y), p.whisker
        ends = (*frame.at(p.x - dx, p.y - dy), *frame.at(p.x + dx, p.y + dy))
        whisker = _segment(*ends, f"whisker {p.tone}") if dx or dy else ""
        dot = f'<circle class="dot {p.tone}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        marks.append(f"<g>{whisker}{dot}<title>{plain(p.about)}</title></g>")
    return _svg(frame, [*marks, *_names(frame, points, size[0] - 8)], axes)


def _band(line: Line, frame: Frame) -> str:
    there = [(x, low) for x, low, _ in line.band]
    back = [(x, high) for x, _, high in reversed(line.band)]
    return f'<polygon class="band {line.tone}" points="{_places(there + back, frame)}"/>'


def _path(line: Line, frame: Frame) -> str:
    dots = ""
    for point in line.points if len(line.points) <= _FEW else line.points[-1:]:
        x, y = frame.at(*point)
        about = f"{plain(line.label)}: {point[1]:.4g} at {short(point[0])}"
        dots += f'<circle class="dot {line.tone}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
        dots += f"<title>{about}</title></circle>"
    return f'<polyline class="line {line.tone}" points="{_places(line.points, frame)}"/>{dots}'


def _places(points: Sequence[tuple[float, float]], frame: Frame) -> str:
    return " ".join("{:.1f},{:.1f}".format(*frame.at(x, y)) for x, y in points)


def _names(frame: Frame, points: Sequence[Point], right: float) -> list[str]:
    """Name points, and lead from a name to its point where it could not stand beside it."""
    places = [(*frame.at(p.x, p.y), p.label) for p in points]
    labels = place_labels(places, right=right, top=TOP, bottom=frame.height - BOTTOM)
    names = []
    for p, (x, y, text), label in zip(points, places, labels, strict=True):
        side, anchor = (-1, "end") if label.left else (1, "start")
        if abs(label.y - y) > 4:
            names.append(_segment(x + 5 * side, y, label.x - 2 * side, label.y, "leader"))
        names.append(_text(label.x, label.y + 4, text, f"name {p.tone}", anchor))
    return names


def _svg(frame: Frame, marks: Sequence[str], axes: Axes) -> str:
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
        f'<svg role="img" aria-label="{plain(axes.title)}" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" height="{high}">{"".join([*drawn, *marks])}</svg>'
    )


def _segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {where}>{plain(text)}</text>'
