"""Rescore only what is in doubt: the targets whose approximate scores are near the k-th.

A target far above the k-th is in the top k whatever its exact score, and one far below is not.
Between them the corrector decides.
"""

from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.corrector.network import Corrector
from unstale.search.added import Added
from unstale.search.best import TopK, agreement
from unstale.search.search import Asked
from unstale.search.vectors import Vectors, corrected_rows

_ALWAYS = 2  # ranks on either side of the k-th that are always rescored, to measure the error
_DEVIATIONS = 2.0  # measured: where 2% of the queries may be in doubt, under 1% of the best is lost


@final
class ExactScores(NamedTuple):
    """The exact scores of a batch of queries, computed for the rows that are wanted."""

    asked: Asked
    buffer: Vectors
    corrector: Corrector

    def of(self, rows: Int[Tensor, "b m"], wanted: Bool[Tensor, "b m"]) -> Float[Tensor, "b m"]:
        """Score the wanted rows through the corrector, each distinct row once; 0 for the others."""
        queries, _, added = self.asked
        distinct, place = rows[wanted].unique(return_inverse=True)
        score = self.corrector.scorer(queries)
        floats = sum(queries.shape) + self.corrector.held(len(queries))
        size = corrected_rows(queries.device, floats)
        parts = [score(self.buffer[part]) for part in distinct.split(size)]
        scores = torch.cat(parts, dim=1)
        if added is not None:
            scores = scores + added.scores(distinct)
        exact = queries.new_zeros(rows.shape)
        exact[wanted] = scores[wanted.nonzero()[:, 0], place]
        return exact


@final
class Fetched(NamedTuple):
    """An approximate ranking, and what the targets that were not fetched may score."""

    best: TopK
    next_score: Float[Tensor, "b 1"]  # about that of the best target that was not fetched
    next_doubt: Float[Tensor, "b 1"]  # how far its true score may be from that


def add_late(found: TopK, added: Added | None) -> Fetched:
    """Rank what a scan fetched by its scores and by what may be added late.

    Scoring the residuals of all targets costs as much as the scan. A residual changes which of
    the first targets are best, but hardly lifts a target from far below. So it is added to what
    was fetched, and its size there tells whether the scan fetched enough.
    """
    last = found.scores[:, -1:]
    if added is None or added.late is None:
        return Fetched(found, last, torch.zeros_like(last))
    extra = added.late(found.rows)
    tail = extra[:, extra.shape[1] // 2 :]  # what was fetched last is most like what was not
    deviation, mean = torch.std_mean(tail, dim=1, correction=0, keepdim=True)
    scores, order = (found.scores + extra).sort(dim=1, descending=True)
    ranked = TopK(scores, found.rows.gather(1, order))
    return Fetched(ranked, last + mean, _DEVIATIONS * deviation)


@final
class Rescored(NamedTuple):
    """The top k, and what was measured on the way."""

    best: TopK
    error: float | None  # of approximate scores, as a deviation from each query's mean error
    reranked: int  # targets that were rescored
    excess: int  # those of them that better approximations would save
    overlap: float | None  # of the checked queries with a rescoring of all that was fetched
    exhausted: float  # share of the queries for which targets not fetched are still in doubt


def rescore(
    fetched: Fetched, k: int, tolerance: float, checked: Int[Tensor, " c"], exact: ExactScores
) -> Rescored:
    """Choose the top k of an approximate ranking of k or more.

    A target is in doubt within `tolerance` of the k-th score. For the queries that are `checked`
    everything is rescored, to see what the others miss.
    """
    approximate = fetched.best
    if approximate.rows.shape[1] == k:
        wide = torch.ones_like(approximate.rows, dtype=torch.bool)
        best = _choose(approximate, exact.of(approximate.rows, wide), wide, k)
        return Rescored(best, None, wide.numel(), 0, None, 0.0)
    border = approximate.scores[:, k - 1 : k + 1].mean(dim=1, keepdim=True)
    narrow = (approximate.scores - border).abs() <= tolerance
    always = slice(max(0, k - _ALWAYS), k + _ALWAYS)
    excess = int(narrow.sum() - narrow[:, always].sum())
    narrow[:, always] = True
    wide = narrow.clone()
    wide[checked] = True
    scores = exact.of(approximate.rows, wide)
    best = _choose(approximate, scores, wide, k)
    overlap = None
    if len(checked):
        some = TopK(approximate.scores[checked], approximate.rows[checked])
        seen = _choose(some, scores[checked], narrow[checked], k)
        overlap = agreement(seen.rows, best.rows[checked])
    error = _error(scores - approximate.scores, wide)
    doubt = fetched.next_doubt.square().add(tolerance**2).sqrt()  # of two independent errors
    exhausted = (border - fetched.next_score <= doubt).float().mean().item()
    return Rescored(best, error, int(wide.sum()), excess, overlap, exhausted)


def _choose(
    approximate: TopK, exact: Float[Tensor, "b m"], doubted: Bool[Tensor, "b m"], k: int
) -> TopK:
    """Take what is above doubt, then the exact best of what is in doubt."""
    rank = torch.arange(doubted.shape[1], device=doubted.device)
    # Doubt is an interval of ranks, so what is above it comes before its first.
    above = rank < torch.where(doubted, rank, doubted.shape[1]).amin(dim=1, keepdim=True)
    merit = torch.where(doubted, exact, -torch.inf).masked_fill(above, torch.inf)
    chosen = merit.topk(k, dim=1).indices
    # One scale for all: shift what keeps its approximate score by the query's mean error.
    error = torch.where(doubted, exact - approximate.scores, 0.0).sum(dim=1, keepdim=True)
    shift = error / doubted.sum(dim=1, keepdim=True)
    scores = torch.where(doubted, exact, approximate.scores + shift).gather(1, chosen)
    order = scores.argsort(dim=1, descending=True)
    return TopK(scores.gather(1, order), approximate.rows.gather(1, chosen.gather(1, order)))


def _error(difference: Float[Tensor, "b m"], seen: Bool[Tensor, "b m"]) -> float:
    """Return the deviation of the error from its mean for the query, over all that was seen."""
    count = seen.sum(dim=1, keepdim=True)
    mean = torch.where(seen, difference, 0.0).sum(dim=1, keepdim=True) / count
    squares = torch.where(seen, difference - mean, 0.0).square().sum()
    return (squares / (count - 1).clamp(min=1).sum()).sqrt().item()
