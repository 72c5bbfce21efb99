"""How good is the corrected index, judged by the sample alone, and how sure is that?

The overlap with the neighbours that full re-embedding would give cannot be seen: the other
targets' fresh vectors do not exist. It is estimated by imagining each of them where its corrected
vector plus the error of a random held-out target would put it; targets that were embedded keep
their fresh vectors. That assumes that errors are alike over the corpus, which a uniform held-out
sample makes true on average, and that they do not depend on the query.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.search.best import TopK, merge, nothing

GROUPS = 10  # of held-out targets, for the jackknife
LEAST_FOUND = 10  # targets for each query: recall@10 needs them
Chunks = Callable[[], Iterator[tuple[int, Float[Tensor, "n e"]]]]


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

    def as_json(self) -> dict[str, float]:
        """Return the three numbers."""
        return {"value": self.value, "low": self.low, "high": self.high}


def mean_interval(values: Float[ndarray, " n"], *, least: float = 0.0) -> Interval:
    """Estimate a mean from independent values."""
    variance = float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
    return Interval.around(float(values.mean()), variance, max(1, len(values) - 1), least=least)


def neighbour_overlap(
    queries: Float[Tensor, "q e"],
    corrected: Chunks,
    rows: Int[Tensor, " s"],
    fresh: Float[Tensor, "s e"],
    errors: Float[Tensor, "h e"],
    k: int = 10,
    seed: int = 0,
) -> tuple[Interval, TopK]:
    """Estimate how much of the true top k of the whole corpus the new index finds.

    Args:
        queries: Fresh query vectors that the corrector was not fitted to.
        corrected: Starts a pass over the new index as it will be written.
        rows: The rows whose fresh vectors are known.
        fresh: Those vectors.
        errors: Fresh minus corrected, of held-out targets.
        k: How many neighbours.
        seed: Of the draws.

    Returns:
        The estimate, and what the new index finds: at least ten targets, if there are so many.
    """
    generator = torch.Generator().manual_seed(seed)
    shift = queries @ errors.T  # (q, h): what each error would do to each query's score
    group = torch.randperm(len(errors), generator=generator) % min(GROUPS, len(errors))
    count = int(group.max()) + 1
    found = nothing(queries)
    imagined = [nothing(queries)] * (count + 1)  # all errors, then without a group
    known = torch.zeros(0, dtype=torch.long)
    for start, vectors in corrected():
        scores = queries @ vectors.T
        found = merge(found, scores, start, max(k, LEAST_FOUND))
        known = ((rows >= start) & (rows < start + len(vectors))).nonzero()[:, 0]
        true = queries @ fresh[known].T
        drawn = torch.randint(len(errors), (len(vectors),), generator=generator)
        for i in range(count + 1):
            if i:  # those that drew an error of this group draw again from the others
                others = (group != i - 1).nonzero()[:, 0]
                again = others[torch.randint(len(others), drawn.shape, generator=generator)]
                used = torch.where(group[drawn] == i - 1, again, drawn)
            else:
                used = drawn
            seen = scores + shift[:, used]
            seen[:, rows[known] - start] = true
            imagined[i] = merge(imagined[i], seen, start, k)
    top = TopK(found.scores[:, :k], found.rows[:, :k])
    whole = _shared(top, imagined[0])
    parts = np.array([float(_shared(top, other).mean()) for other in imagined[1:]])
    spread = (count - 1) / count * float(np.square(parts - parts.mean()).sum())
    variance = float(whole.var()) / len(whole) + spread
    freedom = count - 1 if spread else len(whole) - 1
    return Interval.around(float(whole.mean()), variance, freedom), found


def _shared(found: TopK, true: TopK) -> Float[Tensor, " q"]:
    """Return the part of each query's true rows that were found."""
    return (true.rows[:, :, None] == found.rows[:, None, :]).any(dim=2).float().mean(dim=1)


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
    return {name: interval.as_json() for name, interval in intervals.items()}
