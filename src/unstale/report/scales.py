"""Where does a value stand on an axis, and which values does the axis name?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Linear:
    """An even axis that names the multiples of a round step.

    Example:
        >>> scale = Linear.around([12.0, 47.0])
        >>> scale.ticks(), scale(20.0)
        ([10.0, 20.0, 30.0, 40.0, 50.0], 0.25)
    """

    low: float
    high: float
    step: float

    @classmethod
    def around(cls, values: Sequence[float], count: int = 4) -> "Linear":
        """Cover the values with about `count` whole steps of 1, 2 or 5 times a power of ten."""
        low, high = min(values), max(values)
        if high - low < 1e-12 * max(1.0, abs(high)):  # all the same: a little room on both sides
            margin = abs(high) / 20 or 1.0
            low, high = low - margin, high + margin
        step = _round_step((high - low) / count)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        return cls(first * step, last * step, step)

    @classmethod
    def up_to(cls, high: float, count: int = 4) -> "Linear":
        """Cover 0 to `high`, and end there: what comes after is room for labels."""
        high = high if high > 0 else 1.0
        return cls(0.0, high, _round_step(high / count))

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """List the multiples of the step."""
        first = math.ceil(self.low / self.step - 1e-9)
        last = math.floor(self.high / self.step + 1e-9)
        return [round(i * self.step, 12) for i in range(first, last + 1)]


@final
@dataclass(frozen=True)
class Symlog:
    """An axis from 0 that is logarithmic well above `unit`: log(1 + value / unit).

    Example:
        >>> scale = Symlog(100.0, 9900.0)  # 1 + 9900 / 100 is 10^2, 1 + 900 / 100 is 10^1
        >>> scale(0.0), scale(900.0), scale(9900.0)
        (0.0, 0.5, 1.0)
    """

    unit: float
    high: float

    @classmethod
    def around(cls, values: Sequence[float]) -> "Symlog":
        """Cover 0 and the values; the smallest positive one stands clear of 0."""
        positive = [v for v in values if v > 0]
        smallest, largest = min(positive), max(positive)
        return cls(10.0 ** (math.floor(math.log10(smallest)) - 1), 1.5 * largest)

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return math.log10(1 + value / self.unit) / math.log10(1 + self.high / self.unit)

    def ticks(self) -> list[float]:
        """List 0 and the powers of ten from ten units on."""
        first, last = math.log10(self.unit) + 1, math.log10(self.high)
        return [0.0, *(10.0**p for p in range(round(first), math.floor(last + 1e-9) + 1))]


Scale = Linear | Symlog


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
