"""Names beside points and at the ends of lines, moved apart until none covers another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

CHARACTER = 8.2  # width of a character at the charts' 12.5 pixels, in a wide font
LINE = 15.0  # distance between two labels
GAP = 8.0  # from a point to its label


@final
@dataclass(frozen=True)
class Label:
    """Where a text stands: `x` is its start, or its end if `left` of its point."""

    x: float
    y: float
    left: bool


def place_labels(
    points: Sequence[tuple[float, float, str]], *, right: float, top: float, bottom: float
) -> list[Label]:
    """Put each label beside its point, in the points' order; to the left if the right is taken.

    Labels whose columns overlap are moved up and down, no further than needed, and keep the order
    of their points.
    """
    sides = [_goes_left(i, points, right) for i in range(len(points))]
    spans = [_span(point, left) for point, left in zip(points, sides, strict=True)]
    heights: dict[int, float] = {}
    for column in _columns(spans):
        column.sort(key=lambda i: points[i][1])
        moved = apart([points[i][1] for i in column], LINE, top, bottom)
        heights |= dict(zip(column, moved, strict=True))
    return [
        Label(x - GAP if left else x + GAP, heights[i], left)
        for i, ((x, _, _), left) in enumerate(zip(points, sides, strict=True))
    ]


def _span(point: tuple[float, float, str], left: bool) -> tuple[float, float]:
    x, _, text = point
    return (x - GAP - width(text), x - GAP) if left else (x + GAP, x + GAP + width(text))


def _goes_left(i: int, points: Sequence[tuple[float, float, str]], right: float) -> bool:
    """Leave the right side if it ends there, or if only there another point would be covered."""
    if _span(points[i], left=False)[1] > right:
        return True

    def free(left: bool) -> bool:
        start, end = _span(points[i], left)
        return start >= 0 and not any(
            start - 5 < x < end + 5 and abs(y - points[i][1]) < LINE * 2 / 3 for x, y, _ in points
        )

    return not free(left=False) and free(left=True)


def width(text: str) -> float:
    """Guess how wide a label is."""
    return CHARACTER * len(text)


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move sorted places apart to at least `gap`, by the least squares, within low and high.

    Example:
        >>> apart([10.0, 12.0, 50.0], 6.0, 0.0, 100.0)  # 10 and 12 become 11 -/+ 3
        [8.0, 14.0, 50.0]
        >>> apart([98.0, 99.0], 6.0, 0.0, 100.0)
        [94.0, 100.0]
    """
    # Without the gaps that must be there it is isotonic regression: pool the neighbours that are
    # out of order and give them their mean.
    pools: list[tuple[float, int]] = []
    for i, place in enumerate(wanted):
        mean, count = place - i * gap, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    room = high - gap * (len(wanted) - 1)
    return [max(low, min(mean, room)) + i * gap for i, mean in enumerate(flat)]


def _columns(spans: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Group the spans that overlap, directly or through others."""
    columns: list[list[int]] = []
    end = float("-inf")
    for i in sorted(range(len(spans)), key=lambda i: spans[i][0]):
        if spans[i][0] >= end:
            columns.append([])
        columns[-1].append(i)
        end = max(end, spans[i][1])
    return columns
