"""Where does a value stand on an axis, and which values does the axis name?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Scale:
    """An axis.

    Example:
        >>> scale = linear([12.0, 47.0])
        >>> scale.ticks, scale(20.0)
        ((10.0, 20.0, 30.0, 40.0, 50.0), 0.25)
    """

    low: float
    high: float
    ticks: Sequence[float] = ()  # the values that it names

    def __call__(self, value: float) -> float:
        """Return the place of a value, from 0 at the low end to 1."""
        return (value - self.low) / (self.high - self.low)


def linear(values: Sequence[float]) -> Scale:
    """Cover the values with about 4 whole steps of 1, 2 or 5 times a power of ten."""
    low, high = min(values), max(values)
    if high - low < 1e-12 * max(1.0, abs(high)):  # all the same: a little room on both sides
        margin = abs(high) / 20 or 1.0
        low, high = low - margin, high + margin
    step = _round_step((high - low) / 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Scale(first * step, last * step, _multiples(step, first, last))


def linear_up_to(high: float) -> Scale:
    """Cover 0 to `high`, and end there: what comes after is room for labels."""
    high = high if high > 0 else 1.0
    step = _round_step(high / 4)
    return Scale(0.0, high, _multiples(step, 0, math.floor(high / step + 1e-9)))


def _multiples(step: float, first: int, last: int) -> tuple[float, ...]:
    return tuple(round(i * step, 12) for i in range(first, last + 1))


def _round_step(least: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return power * next(m for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def short(value: float) -> str:
    """Write a tick: 0, 0.25, 40, 2k, 1.5M.

    Example:
        >>> [short(v) for v in (0.0, 0.25, 40.0, 2000.0, 1.5e6)]
        ['0', '0.25', '40', '2k', '1.5M']
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"
