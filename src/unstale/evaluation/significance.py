"""Is a difference real? Paired tests and bootstrap intervals over queries and seeds."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import stats

Values = Mapping[int, Float[ndarray, " q"]]  # seed: one metric of every query


def paired_p_value(method: Values, reference: Values) -> float | None:
    """Test whether two methods differ: a paired t-test over queries, seeds averaged.

    It speaks of these trained models on other queries, not of the method under other seeds: those
    are averaged, not sampled. None if they do not differ on any query, or are the same.
    """
    difference = _seed_mean(method) - _seed_mean(reference)
    if not difference.any():
        return None
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def gap_recovered(
    method: Values, floor: Values, ceiling: Values, *, resamples: int = 1000, seed: int = 0
) -> tuple[float, float, float] | None:
    """Return (method - floor) / (ceiling - floor) of the means, and its 95% interval.

    The means are over seeds and queries, and so is the bootstrap of the interval. Queries are
    resampled alike for all three, and seeds for those that have the same: runs of one seed share
    their data order. Where one of the three has a single seed, the interval leaves out how results
    vary from seed to seed, and is too narrow; of few seeds it is rough. Where the interval of the
    denominator contains 0 there is no gap to recover: None.
    """
    everyone = (method, floor, ceiling)
    point = [float(_seed_mean(v).mean()) for v in everyone]
    random = np.random.default_rng(seed)
    queries = len(next(iter(method.values())))
    seeds = [tuple(sorted(v)) for v in everyone]
    columns = [
        np.stack([v[s] for s in own], axis=1) for v, own in zip(everyone, seeds, strict=True)
    ]  # (queries, seeds)
    draws = np.empty((3, resamples))
    for i in range(resamples):
        weights = random.multinomial(queries, np.full(queries, 1 / queries)) / queries
        # In a fixed order: a set's would change from process to process.
        chosen = {own: random.integers(len(own), size=len(own)) for own in dict.fromkeys(seeds)}
        for j, column in enumerate(columns):
            draws[j, i] = (weights @ column)[chosen[seeds[j]]].mean()
    gap = draws[2] - draws[1]
    low, high = np.percentile(gap, [2.5, 97.5])
    if low <= 0 <= high:
        return None
    ratios = (draws[0] - draws[1])[gap != 0] / gap[gap != 0]
    bounds = np.percentile(ratios, [2.5, 97.5])
    value = (point[0] - point[1]) / (point[2] - point[1])
    return value, float(bounds[0]), float(bounds[1])


def _seed_mean(values: Values) -> Float[ndarray, " q"]:
    return np.mean(list(values.values()), axis=0)
