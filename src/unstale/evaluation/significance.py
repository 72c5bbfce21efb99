"""Is a difference real? Tests and intervals over queries, for these models, or over seeds.

A claim about methods needs seeds: another training of the same method is another model. What is
paired by seed compares runs that share their data order.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import stats

Values = Mapping[int, Float[ndarray, " q"]]  # seed: one metric of every query


class SeedDifference(NamedTuple):
    """How far two methods differ on average over seeds, with its 95% interval and p value."""

    mean: float
    low: float
    high: float
    p: float
    seeds: int  # that both were trained with


def seed_difference(method: Values, reference: Values) -> SeedDifference | None:
    """Compare two methods by a paired t-test over the seeds that both have.

    A seed's value is the mean over the queries: the interval is about other seeds on the same
    queries. None with fewer than two seeds, which say nothing about others.
    """
    seeds = sorted(method.keys() & reference.keys())
    if len(seeds) < 2:
        return None
    differences = np.array([method[s].mean() - reference[s].mean() for s in seeds])
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / len(seeds) ** 0.5)
    half = _t_quantile(len(seeds)) * error
    if error > 0:
        p = 2 * float(stats.t.sf(abs(mean) / error, len(seeds) - 1))
    else:
        p = 0.0 if mean else 1.0
    return SeedDifference(mean, mean - half, mean + half, p, len(seeds))


def gap_interval_over_seeds(
    method: Values, floor: Values, ceiling: Values
) -> tuple[float, float] | None:
    """Return Fieller's 95% interval of (method - floor) / (ceiling - floor) over seeds.

    It holds every ratio r for which a paired t-test over the seeds does not reject that
    (method - floor) - r (ceiling - floor) is 0 on average. None with fewer than two seeds that all
    three have, or where the seeds leave open whether there is a gap: the interval has no ends.
    """
    seeds = sorted(method.keys() & floor.keys() & ceiling.keys())
    if len(seeds) < 2:
        return None
    gained, gap = (
        np.array([top[s].mean() - floor[s].mean() for s in seeds]) for top in (method, ceiling)
    )
    doubt = _t_quantile(len(seeds)) ** 2 * np.cov(gained, gap) / len(seeds)
    a, b = gained.mean(), gap.mean()
    square, middle, rest = b * b - doubt[1, 1], a * b - doubt[0, 1], a * a - doubt[0, 0]
    if square <= 0:
        return None
    # Not below 0 but for rounding: the ratio of the means itself is never rejected.
    root = max(0.0, middle * middle - square * rest) ** 0.5
    return float((middle - root) / square), float((middle + root) / square)


def _t_quantile(seeds: int) -> float:
    return float(stats.t.ppf(0.975, seeds - 1))


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
