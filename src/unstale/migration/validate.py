"""How much of the true neighbours does the corrected index find, judged by the sample alone?

That cannot be seen: the fresh vectors of the other targets do not exist. What is known is how fresh
scores follow corrected ones for held-out targets (`law.py`). By that law the fresh scores of the
targets that a query finds are drawn; targets that were embedded keep theirs.
"""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from scipy import stats
from torch import Tensor

from unstale.distributed import exchange
from unstale.migration.index import Chunks, Known
from unstale.migration.law import NEAR, Law
from unstale.search.best import TopK, merge, merge_best, nothing
from unstale.search.sharded import merge_processes

GROUPS = 10  # of held-out targets, for the jackknife
LEAST_FOUND = 10  # targets for each query: recall@10 needs them
REACH = 2048  # targets of a query, the best as corrected, that may be its true neighbours
FAR = 20  # a corpus of fewer times k targets has its neighbours not only near a query


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
        half = float(stats.t.ppf(0.975, freedom)) * variance**0.5
        return cls(value, max(least, value - half), min(1.0, value + half))

    def holds(self, truth: float) -> bool:
        """Say whether a value lies inside."""
        return self.low <= truth <= self.high


def mean_interval(values: Float[ndarray, " n"], *, least: float = 0.0) -> Interval:
    """Estimate a mean from independent values; one alone says nothing about the others."""
    variance = float(values.var(ddof=1)) / len(values) if len(values) > 1 else float("inf")
    return Interval.around(float(values.mean()), variance, max(1, len(values) - 1), least=least)


def as_json(intervals: dict[str, Interval]) -> dict[str, Any]:
    """Return named intervals in the form of results.json."""
    return {name: asdict(interval) for name, interval in intervals.items()}


class Pairs(NamedTuple):
    """Held-out targets: where the old index or the corrector puts them, and the new encoder."""

    before: Float[Tensor, "h d"]
    fresh: Float[Tensor, "h e"]


def neighbour_overlap(
    queries: Float[Tensor, "q e"],
    index: Chunks,
    known: Known,
    pairs: Pairs,
    k: int = 10,
    seed: int = 0,
    *,
    asking: Int[Tensor, " q"] | None = None,
) -> tuple[Interval, TopK]:
    """Estimate how much of the true top k of the whole corpus the new index finds.

    The variance adds up that over queries and a jackknife over groups of held-out targets.

    Args:
        queries: Fresh query vectors that the corrector was not fitted to.
        index: The new index as it will be written, piece by piece.
        known: The targets whose fresh vectors are known, whether the index holds them or not.
        pairs: Held-out targets.
        asking: The rows of the queries, if they are the first of the held-out targets: none of them
            is its own neighbour.

    Returns:
        The estimate, and what the new index finds: at least ten targets, if there are ten.
    """
    found, unseen, count = _scan(queries, index, known, k, asking)
    top = TopK(found.scores[:, :k], found.rows[:, :k])
    scores = queries @ known.fresh.T
    if asking is not None:
        scores[asking[:, None] == known.rows] = -torch.inf
    best = scores.topk(min(k, len(known.rows)), dim=1)
    embedded = TopK(best.values, known.rows[best.indices])

    generator = torch.Generator().manual_seed(seed)
    group = torch.randperm(len(pairs.fresh), generator=generator) % min(GROUPS, len(pairs.fresh))
    then, now = queries @ pairs.before.T, queries @ pairs.fresh.T
    own = torch.zeros_like(now, dtype=torch.bool)
    if asking is not None:  # a target is nearest to itself, as no other is to it
        own.fill_diagonal_(True)
    least = NEAR if k * FAR <= count else -torch.inf

    def overlap(some: Tensor) -> Float[Tensor, " q"]:
        law = Law.fit(then[:, some], now[:, some], ~own[:, some], least)
        uniform = torch.rand(unseen.scores.shape, generator=generator)  # its noise counts, too
        drawn = law.draw(unseen.scores, uniform)
        imagined = drawn.topk(min(k, drawn.shape[1]), dim=1)
        true = TopK(imagined.values, unseen.rows.gather(1, imagined.indices))
        return _shared(top, merge_best(embedded, true, k))

    whole = overlap(torch.ones_like(group, dtype=torch.bool))
    groups = int(group.max()) + 1
    if len(whole) == 1 or groups < GROUPS:  # too few to say how they vary
        return Interval.around(float(whole.mean()), float("inf"), 1), found
    parts = np.array([float(overlap(group != i).mean()) for i in range(groups)])
    spread = (groups - 1) / groups * float(np.square(parts - parts.mean()).sum())
    variance = float(whole.var()) / len(whole) + spread
    freedom = groups - 1 if spread else max(1, len(whole) - 1)
    return Interval.around(float(whole.mean()), variance, freedom), found


def _scan(
    queries: Float[Tensor, "q e"],
    index: Chunks,
    known: Known,
    k: int,
    asking: Int[Tensor, " q"] | None,
) -> tuple[TopK, TopK, int]:
    """Find the best targets of the index, the best that were not embedded, and its size.

    Every process scans its own pieces, where they are; all get what all of them found.
    """
    found = unseen = nothing(queries)
    count = 0
    for start, vectors in index:
        scores = (queries.to(vectors.device) @ vectors.T).cpu()
        if asking is not None:
            _leave_out(scores, asking - start)
        found = merge(found, scores, start, max(k, LEAST_FOUND))
        here = (known.rows >= start) & (known.rows < start + len(vectors))
        scores[:, known.rows[here] - start] = -torch.inf
        unseen = merge(unseen, scores, start, max(REACH, 4 * k))
        count += len(vectors)
    found = merge_processes(found, max(k, LEAST_FOUND))
    return found, merge_processes(unseen, max(REACH, 4 * k)), sum(exchange(count))


def _leave_out(scores: Float[Tensor, "q n"], own: Int[Tensor, " q"]) -> None:
    """Rule out each query's own column, if it is among them."""
    here = ((own >= 0) & (own < scores.shape[1])).nonzero()[:, 0]
    scores[here, own[here]] = -torch.inf


def _shared(found: TopK, true: TopK) -> Float[Tensor, " q"]:
    """Return the part of each query's true rows that were found."""
    return (true.rows[:, :, None] == found.rows[:, None, :]).any(dim=2).float().mean(dim=1)
