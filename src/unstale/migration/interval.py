"""An estimate, and how sure it is."""

from dataclasses import asdict, dataclass
from typing import Any, final

from jaxtyping import Float
from numpy import ndarray


@final
@dataclass(frozen=True)
class Interval:
    """An estimate and its 95% interval."""

    value: float
    low: float
    high: float

    @classmethod
    def around(
        cls, value: float, variance: float, freedom: int, *, least: float = 0.0
    ) -> "Interval":
        """Make a Student interval, kept within [least, 1]."""
        half = _t975(freedom) * variance**0.5
        return cls(value, max(least, value - half), min(1.0, value + half))

    def holds(self, truth: float) -> bool:
        """Say whether a value lies inside."""
        return self.low <= truth <= self.high


def mean_interval(values: Float[ndarray, " n"], *, least: float = 0.0) -> Interval:
    """Estimate a mean from independent values; one alone says nothing about the others."""
    variance = float(values.var(ddof=1)) / len(values) if len(values) > 1 else float("inf")
    return Interval.around(float(values.mean()), variance, max(1, len(values) - 1), least=least)


def _t975(freedom: int) -> float:
    """Return Student's 97.5% point, by Hill's expansion around the normal one (to 1% from 3 on)."""
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    exact = {1: 12.706, 2: 4.303}
    return exact.get(freedom) or z + sum(t / freedom ** (i + 1) for i, t in enumerate(terms))


def as_json(intervals: dict[str, Interval]) -> dict[str, Any]:
    """Return named intervals in the form of results.json."""
    return {name: asdict(interval) for name, interval in intervals.items()}
