"""The summary of a comparison, made and read: means, spread, significance, gap recovered."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from unstale.evaluation import significance
from unstale.evaluation.significance import (
    SeedDifference,
    Values,
    gap_interval_over_seeds,
    paired_p_value,
    seed_difference,
)
from unstale.results import JsonObject, number


class RecoveredGap(NamedTuple):
    """Where a strategy stands from stale (0) to exhaustive (1), and its 95% interval, if known.

    The interval is over seeds (Fieller's) where there are several, otherwise over queries.
    """

    value: float
    low: float | None
    high: float | None
    one_seed: bool  # the interval leaves out how results vary from seed to seed


REFERENCES = FLOOR, CEILING = "stale", "exhaustive"


def summarise(
    values: dict[str, dict[int, dict[str, np.ndarray]]],
    references: Sequence[str] = REFERENCES,
) -> dict[str, Any]:
    """Compare strategies.

    Args:
        values: By strategy, seed and metric: one number a query. A strategy may lack a metric.
        references: Those that the others are tested against.

    Returns:
        `mean`, `std` (over seeds), `seeds`, `p_value[reference][strategy][metric]` (over queries),
        `seed_difference` alike (over seeds; None with one), `gap_recovered[strategy][metric]`,
        `gap_recovered_interval` (bootstrap over queries and seeds) and `interval_seeds[strategy]`,
        the fewest seeds of the strategy and the gap's two ends: with 1 it is too narrow;
        `gap_recovered_seed_interval` (Fieller's, over seeds) of strategies with several.
    """
    found: dict[str, dict[str, Values]] = {
        s: {m: {seed: v[m] for seed, v in seeds.items()} for m in next(iter(seeds.values()))}
        for s, seeds in values.items()
    }

    def against(test: Callable[[Values, Values], Any]) -> dict[str, Any]:
        return {
            r: {
                s: {m: test(v, found[r][m]) for m, v in own.items() if m in found[r]}
                for s, own in found.items()
                if s != r
            }
            for r in references
            if r in found
        }

    summary: dict[str, Any] = {
        "seeds": {s: sorted(by_seed) for s, by_seed in values.items()},
        "mean": {s: {m: _means(v).mean() for m, v in own.items()} for s, own in found.items()},
        "std": {s: {m: _std(v) for m, v in own.items()} for s, own in found.items()},
        "p_value": against(paired_p_value),
        "seed_difference": against(_difference),
    }
    return summary | _recovered(found)


def _recovered(found: dict[str, dict[str, Values]]) -> dict[str, Any]:
    """Place every strategy between the two ends of the gap, where both were trained."""
    gap, interval, over_seeds, seeds = {}, {}, {}, {}
    floor, ceiling = found.get(FLOOR, {}), found.get(CEILING, {})
    for s, own in found.items() if floor and ceiling else ():
        ends = {m: (v, floor[m], ceiling[m]) for m, v in own.items() if m in floor and m in ceiling}
        gaps = {m: significance.gap_recovered(*three) for m, three in ends.items()}
        gap[s] = {m: g and g[0] for m, g in gaps.items()}
        interval[s] = {m: g and list(g[1:]) for m, g in gaps.items()}
        seeds[s] = min((len(v) for three in ends.values() for v in three), default=0)
        if seeds[s] > 1:
            bounds = {m: gap_interval_over_seeds(*three) for m, three in ends.items()}
            over_seeds[s] = {m: b and list(b) for m, b in bounds.items()}
    return {
        "gap_recovered": gap,
        "gap_recovered_interval": interval,
        "gap_recovered_seed_interval": over_seeds,
        "interval_seeds": seeds,
    }


def _difference(method: Values, reference: Values) -> dict[str, float] | None:
    found = seed_difference(method, reference)
    return found and found._asdict()


def gap_recovered(summary: JsonObject, strategy: str, metric: str) -> RecoveredGap | None:
    """Read the gap that a strategy recovers, if a summary has it."""
    if (value := number(_at(summary, "gap_recovered", strategy, metric))) is None:
        return None
    over_seeds = _at(summary, "gap_recovered_seed_interval", strategy) is not None
    kind = "gap_recovered_seed_interval" if over_seeds else "gap_recovered_interval"
    bounds = _at(summary, kind, strategy, metric)
    low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
    one_seed = _at(summary, "interval_seeds", strategy) == 1
    return RecoveredGap(value, number(low), number(high), one_seed)


def difference(
    summary: JsonObject, reference: str, strategy: str, metric: str
) -> SeedDifference | None:
    """Read how far a strategy is from a reference over seeds, if a summary has it."""
    stored = _at(summary, "seed_difference", reference, strategy, metric)
    found = [number(_at(stored, name)) for name in ("mean", "low", "high", "p", "seeds")]
    mean, low, high, p, seeds = found
    if mean is None or low is None or high is None or p is None or seeds is None:
        return None
    return SeedDifference(mean, low, high, p, int(seeds))


def references(summary: JsonObject) -> list[str]:
    """List what the strategies were tested against."""
    tested = summary.get("p_value")
    return list(tested) if isinstance(tested, dict) else []


def p_value(summary: JsonObject, reference: str, strategy: str, metric: str) -> float | None:
    """Read the p value of a strategy against a reference, if a summary has it."""
    return number(_at(summary, "p_value", reference, strategy, metric))


def _at(value: object, *path: str) -> Any:  # noqa: ANN401 - whatever JSON holds there
    """Follow keys into nested objects that may have been edited; None where there is nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _means(by_seed: Values) -> np.ndarray:
    return np.array([values.mean() for values in by_seed.values()])


def _std(by_seed: Values) -> float:
    return float(_means(by_seed).std(ddof=1)) if len(by_seed) > 1 else 0.0
