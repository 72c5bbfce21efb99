"""Is a difference real? Paired tests and bootstrap intervals over queries and seeds."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import stats

Values = Mapping[int, Float[ndarray, " q"]]  # seed: one metric of every query


class Gap(NamedTuple):
    """The share of a gap that a method recovers, with its 95% interval; None: no gap to share."""

    value: float | None
    low: float | None
    high: float | None


def paired_p_value(method: Values, reference: Values) -> float | None:
    """Test whether two methods differ: a paired t-test over queries, seeds averaged.

    None if they do not differ on any query, or are the same.
    """
    difference = _seed_mean(method) - _seed_mean(reference)
    if not difference.any():
        return None
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def gap_recovered(
    method: Values, floor: Values, ceiling: Values, *, resamples: int = 1000, seed: int = 0
) -> Gap:
    """Compute (method - floor) / (ceiling - floor) of the means over seeds and queries.

    The interval is a bootstrap's: queries are resampled alike for all three, seeds for each. Where
    the interval of the denominator contains 0 there is no gap to recover, and no value.
    """
    everyone = (method, floor, ceiling)
    point = [float(_seed_mean(v).mean()) for v in everyone]
    random = np.random.default_rng(seed)
    queries = len(next(iter(method.values())))
    draws = np.empty((3, resamples))
    columns = [np.stack(list(v.values()), axis=1) for v in everyone]  # (queries, seeds)
    for i in range(resamples):
        weights = random.multinomial(queries, np.full(queries, 1 / queries)) / queries
        for j, column in enumerate(columns):
            chosen = random.integers(column.shape[1], size=column.shape[1])
            draws[j, i] = (weights @ column)[chosen].mean()
    low, high = np.percentile(draws[2] - draws[1], [2.5, 97.5])
    if low <= 0 <= high:
        return Gap(None, None, None)
    gap = draws[2] - draws[1]
    ratios = (draws[0] - draws[1])[gap != 0] / gap[gap != 0]
    bounds = np.percentile(ratios, [2.5, 97.5])
    value = (point[0] - point[1]) / (point[2] - point[1])
    return Gap(value, float(bounds[0]), float(bounds[1]))


def _seed_mean(values: Values) -> Float[ndarray, " q"]:
    return np.mean(list(values.values()), axis=0)
