"""The summary of a comparison, made and read: means, spread, significance, gap recovered."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unstale.evaluation import significance
from unstale.evaluation.significance import Values, paired_p_value
from unstale.results import JsonObject, number


class RecoveredGap(NamedTuple):
    """Where a strategy stands from stale (0) to exhaustive (1), and its 95% interval, if known."""

    value: float
    low: float | None
    high: float | None
    one_seed: bool  # the interval leaves out how results vary from seed to seed


FLOOR, CEILING = "stale", "exhaustive"


def summarise(
    values: dict[str, dict[int, dict[str, np.ndarray]]],
    references: Sequence[str] = (FLOOR, CEILING),
) -> dict[str, Any]:
    """Compare strategies.

    Args:
        values: By strategy, seed and metric: one number a query. A strategy may lack a metric.
        references: Those that the others are tested against.

    Returns:
        `mean`, `std` (over seeds), `seeds`, `p_value[reference][strategy][metric]`,
        `gap_recovered[strategy][metric]`, `gap_recovered_interval` and `interval_seeds[strategy]`,
        the fewest seeds of the strategy and the gap's two ends: with 1 it is too narrow.
    """
    found: dict[str, dict[str, Values]] = {
        s: {m: {seed: v[m] for seed, v in seeds.items()} for m in next(iter(seeds.values()))}
        for s, seeds in values.items()
    }
    summary: dict[str, Any] = {
        "seeds": {s: sorted(by_seed) for s, by_seed in values.items()},
        "mean": {s: {m: _means(v).mean() for m, v in own.items()} for s, own in found.items()},
        "std": {s: {m: _std(v) for m, v in own.items()} for s, own in found.items()},
        "p_value": {
            r: {
                s: {m: paired_p_value(v, found[r][m]) for m, v in own.items() if m in found[r]}
                for s, own in found.items()
                if s != r
            }
            for r in references
            if r in found
        },
        "gap_recovered": {},
        "gap_recovered_interval": {},
        "interval_seeds": {},
    }
    if FLOOR in found and CEILING in found:
        floor, ceiling = found[FLOOR], found[CEILING]
        for s, own in found.items():
            gaps = {
                m: significance.gap_recovered(v, floor[m], ceiling[m])
                for m, v in own.items()
                if m in floor and m in ceiling
            }
            summary["gap_recovered"][s] = {m: gap and gap[0] for m, gap in gaps.items()}
            summary["gap_recovered_interval"][s] = {m: g and list(g[1:]) for m, g in gaps.items()}
            summary["interval_seeds"][s] = min(len(values[k]) for k in (s, FLOOR, CEILING))
    return summary


def gap_recovered(summary: JsonObject, strategy: str, metric: str) -> RecoveredGap | None:
    """Read the gap that a strategy recovers, if a summary has it."""
    if (value := number(_at(summary, "gap_recovered", strategy, metric))) is None:
        return None
    bounds = _at(summary, "gap_recovered_interval", strategy, metric)
    low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
    one_seed = _at(summary, "interval_seeds", strategy) == 1
    return RecoveredGap(value, number(low), number(high), one_seed)


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
