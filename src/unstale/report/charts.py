"""Charts as inline SVG: lines over an axis, points with whiskers, and rows of dots.

Colours and fonts are the page's: a mark has a class (`tone-...`), never a colour. Coordinates are
pixels at the drawn width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from unstale.report.escape import plain
from unstale.report.labels import GAP, Label, place_labels, width
from unstale.report.scales import Linear, Scale, short

LEFT, TOP, BOTTOM = 44.0, 28.0, 42.0  # margins: tick labels, the y axis' name, ticks and x's name
_FEW = 6  # lines, or half the points of one, that can have their points marked


@final
@dataclass(frozen=True)
class Line:
    """A line through points, with the range over seeds where there is one."""

    label: str
    tone: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()  # (x, low, high)
    quiet: bool = False  # drawn without its name

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
    """A point, with half the length of its whisker."""

    label: str
    tone: str
    x: float
    y: float
    spread: float | None = None


@final
@dataclass(frozen=True)
class Frame:
    """The drawn area and its two scales: from values to pixels.

    Example:
        >>> frame = Frame(200.0, 170.0, 56.0, Linear(0.0, 10.0, 5.0), Linear(0.0, 1.0, 0.5))
        >>> frame.x(5.0), frame.y(1.0), frame.y(0.0)  # 44 + (200 - 44 - 56) / 2; top; 170 - 42
        (94.0, 28.0, 128.0)
    """

    width: float
    height: float
    right: float  # margin, room for the labels of lines
    across: Scale
    up: Scale

    def x(self, value: float) -> float:
        """Return the pixel of a value, from the left."""
        return LEFT + self.across(value) * (self.width - LEFT - self.right)

    def y(self, value: float) -> float:
        """Return the pixel of a value, from the top."""
        return self.height - BOTTOM - self.up(value) * (self.height - TOP - BOTTOM)


def line_chart(
    lines: Sequence[Line],
    size: tuple[float, float],
    axes: Axes,
    *,
    up: Linear | None = None,
    room: float | None = None,
) -> str:
    """Draw lines, each named at its end; `up` and `room`, for names, make charts comparable."""
    named = [line for line in lines if not line.quiet]
    up = up or Linear.around([y for line in lines for y in line.heights()])
    right = room or max((width(n.label) for n in named), default=8.0) + GAP
    last = max(x for line in lines for x, _ in line.points)
    frame = Frame(*size, right, Linear.up_to(last), up)
    marks = [_band(line, frame) for line in lines if line.band]
    marks += [_path(line, frame, dotted=len(lines) <= _FEW) for line in lines]
    ends = [(*line.points[-1], line.label, line.tone) for line in named]
    return _svg(frame, [*marks, *_labels(frame, ends, size[0])], axes)


def scatter(points: Sequence[Point], size: tuple[float, float], axes: Axes, across: Scale) -> str:
    """Draw named points with whiskers."""
    edges = [p.y + side * (p.spread or 0) for p in points for side in (-1, 1)]
    margin = (max(edges) - min(edges)) / 20  # no point on the axis itself
    up = Linear.around([min(edges) - margin, max(edges) + margin])
    frame = Frame(*size, 16.0, across, up)
    marks = []
    for p in points:
        x, low, high = frame.x(p.x), *(frame.y(p.y + side * (p.spread or 0)) for side in (-1, 1))
        marks.append(_dot(p, p.y, (x, frame.y(p.y)), (x, low, x, high)))
    named = [(p.x, p.y, p.label, p.tone) for p in points]
    return _svg(frame, [*marks, *_labels(frame, named, size[0] - 8)], axes)


def dot_rows(points: Sequence[Point], across: float, axes: Axes) -> str:
    """Draw one row a point: its name, a dot on a common axis, its value."""
    names, row = max(width(p.label) for p in points) + 14, 28.0
    height = 12 + row * len(points) + BOTTOM
    edges = [p.x + side * (p.spread or 0) for p in points for side in (-1, 1)]
    scale, room = Linear.around(edges), across - names - 50

    def place(value: float) -> float:
        return names + scale(value) * room

    base, marks = height - BOTTOM, []
    for tick in scale.ticks():
        marks.append(_segment(place(tick), 6.0, place(tick), base, "grid"))
        marks.append(_text(place(tick), base + 17, short(tick), "tick", "middle"))
    for i, p in enumerate(points):
        y, x = 12 + row * (i + 0.5), place(p.x)
        low, high = (place(p.x + side * (p.spread or 0)) for side in (-1, 1))
        marks.append(_text(names - 14, y + 4, p.label, f"name {p.tone}", "end"))
        marks.append(_dot(p, p.x, (x, y), (low, y, high, y)))
        marks.append(_text(high + GAP, y + 4, f"{p.x:.1f}", "value"))
    marks.append(_text(names, height - 6, axes.x_name, "axis"))
    return _wrap(across, height, marks, axes.title)


def _band(line: Line, frame: Frame) -> str:
    there = [f"{frame.x(x):.1f},{frame.y(low):.1f}" for x, low, _ in line.band]
    back = [f"{frame.x(x):.1f},{frame.y(high):.1f}" for x, _, high in reversed(line.band)]
    return f'<polygon class="band {line.tone}" points="{" ".join(there + back)}"/>'


def _path(line: Line, frame: Frame, *, dotted: bool) -> str:
    places = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in line.points)
    ends = line.points if dotted and len(line.points) <= 2 * _FEW else line.points[-1:]
    dots = "".join(
        f'<circle class="dot {line.tone}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2.5">'
        f"<title>{plain(line.label)}: {y:.4g} at {short(x)}</title></circle>"
        for x, y in ends
    )
    return f'<polyline class="line {line.tone}" points="{places}"/>{dots}'


def _dot(
    p: Point, value: float, at: tuple[float, float], ends: tuple[float, float, float, float]
) -> str:
    """Draw a point with its whisker, if it has a spread; its value appears on hovering."""
    whisker = _segment(*ends, f"whisker {p.tone}") if p.spread else ""
    about = f"{plain(p.label)}: {value:.1f}" + (f" ± {p.spread:.1f}" if p.spread else "")
    return (
        f'<g>{whisker}<circle class="dot {p.tone}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="4.5"/>'
        f"<title>{about}</title></g>"
    )


def _labels(
    frame: Frame, named: Sequence[tuple[float, float, str, str]], right: float
) -> list[str]:
    """Name points, given as `(x, y, label, tone)`."""
    places = [(frame.x(x), frame.y(y), label) for x, y, label, _ in named]
    labels = place_labels(places, right=right, top=TOP, bottom=frame.height - BOTTOM)
    return [_label(label, tone) for label, (*_, tone) in zip(labels, named, strict=True)]


def _label(label: Label, tone: str) -> str:
    x, y = label.point
    text = _text(label.x, label.y + 4, label.text, f"name {tone}", "end" if label.left else "start")
    if abs(label.y - y) <= 4:
        return text
    near = -1 if label.left else 1
    return _segment(x + 5 * near, y, label.x - 2 * near, label.y, "leader") + text


def _svg(frame: Frame, marks: Sequence[str], axes: Axes) -> str:
    base = frame.height - BOTTOM
    drawn = []
    for tick in frame.up.ticks():
        y = frame.y(tick)
        drawn.append(_segment(LEFT, y, frame.width - frame.right, y, "grid"))
        drawn.append(_text(LEFT - 8, y + 4, short(tick), "tick", "end"))
    for tick in frame.across.ticks():
        x = frame.x(tick)
        drawn.append(_segment(x, base, x, base + 4, "axis-line"))
        drawn.append(_text(x, base + 17, short(tick), "tick", "middle"))
    drawn.append(_segment(LEFT, base, frame.width - frame.right, base, "axis-line"))
    drawn.append(_text(2.0, 14.0, axes.y_name, "axis"))
    drawn.append(_text(frame.width - frame.right, frame.height - 6, axes.x_name, "axis", "end"))
    return _wrap(frame.width, frame.height, [*drawn, *marks], axes.title)


def _wrap(across: float, height: float, marks: Sequence[str], title: str) -> str:
    return (
        f'<svg role="img" aria-label="{plain(title)}" viewBox="0 0 {across:.0f} {height:.0f}" '
        f'width="{across:.0f}" height="{height:.0f}">{"".join(marks)}</svg>'
    )


def _segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {where}>{plain(text)}</text>'
