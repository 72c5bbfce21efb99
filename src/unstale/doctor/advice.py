"""From what a trial found to a sentence or two of advice."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from numpy import ndarray
from scipy import stats

from unstale.settings import MINE_FROM

_PERFECT = 0.99  # nDCG@10 that leaves nothing to gain
FEWEST = 20  # steps, or queries, below which a trial tells nothing


@final
@dataclass(frozen=True)
class Tried:
    """One training of a trial."""

    strategy: str
    steps: int
    seconds: float  # of training, and of embedding if the strategy does that
    ndcg: float  # of the held-out queries, at 10


@final
@dataclass(frozen=True)
class Findings:
    """What a trial found: the default strategy against in-batch negatives."""

    in_batch: Tried
    default: Tried
    before: float  # nDCG@10 of the encoder before training
    gain: float  # nDCG@10 of the default strategy beyond that of in-batch negatives
    low: float  # its 95% interval, over queries
    high: float
    queries: int
    batch_size: int
    mined: int  # steps of the default strategy that mined


def interval(differences: Float[ndarray, " q"]) -> tuple[float, float, float]:
    """Return the mean of paired differences and its 95% interval, by Student's t.

    Example:
        >>> import numpy as np
        >>> [round(x, 2) for x in interval(np.array([0.1, 0.2, 0.3]))]
        [0.2, -0.05, 0.45]
    """
    mean, count = float(differences.mean()), len(differences)
    if count < 2:
        return mean, -1.0, 1.0
    half = float(stats.t.ppf(0.975, count - 1) * differences.std(ddof=1) / count**0.5)
    return mean, mean - half, mean + half


def advise(found: Findings) -> str:
    """Say what to do.

    1. A trial of too few steps or held-out queries tells nothing, nor does one in which both find
       all.
    2. A strategy is advised only if the interval of the difference does not contain 0. It is over
       queries; the trial has one seed.
    3. Otherwise the default stays: it begins with in-batch negatives, and keeps the best weights.
    """
    steps = min(found.default.steps, found.in_batch.steps)
    if min(steps, found.queries) < FEWEST or not found.mined:
        had = f"{steps} steps, {found.queries} held-out queries"
        rule = "give it more --seconds or a smaller encoder, by --layers or --target-max-length"
        return f"The trial was too short for advice ({had}): {rule}."
    if min(found.default.ndcg, found.in_batch.ndcg) > _PERFECT:
        both = (
            f"{100 * found.in_batch.ndcg:.1f} and {100 * found.default.ndcg:.1f} points of nDCG@10"
        )
        return (
            f"Both rank the held-out queries almost perfectly ({both}), so the trial cannot tell."
        )
    ahead = f"by {100 * abs(found.gain):.1f} points of nDCG@10"
    range_ = f"95% interval of the gain {100 * found.low:+.1f} to {100 * found.high:+.1f}"
    if found.low > 0:
        rule = f"Train with --mine-from {MINE_FROM}"
        return f"Hard negatives pay: staged is ahead {ahead} ({range_}). {rule}."
    if found.high < 0:
        rule = "Use --strategy in-batch for so short a training; in a longer one, compare again"
        return f"In-batch negatives are ahead {ahead} ({range_}). {rule}."
    rule = "Keep the default: it begins with in-batch negatives and keeps the best weights"
    return f"The trial shows no clear difference ({range_}). {rule}."
