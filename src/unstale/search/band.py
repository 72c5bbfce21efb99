"""Rerank only what is in doubt: the targets whose approximate scores are near the k-th.

What stands clearly above the k-th is in the top k whatever its exact score, and what is clearly
below is not. Between them the corrector decides.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.corrector.network import Corrector
from unstale.search.best import TopK
from unstale.search.exact import Draw
from unstale.search.vectors import CORRECTED, Vectors

_ALWAYS = 2  # ranks on either side of the k-th that are reranked in any case, to measure the error


class Beyond(NamedTuple):
    """What a target that was not fetched may score: about so much, within a doubt of its own."""

    score: Float[Tensor, "b 1"]
    doubt: Float[Tensor, "b 1"]


class Settled(NamedTuple):
    """An answer, and what was learned on the way.

    `error`: of approximate scores, as a deviation from each query's mean error. `excess`: what was
    reranked beyond what always is, which better approximations would save. `overlap`: of the
    checked queries' answers with those of a rerank of everything fetched. `exhausted`: the share
    of queries for which what was not fetched is still in doubt.
    """

    best: TopK
    error: float | None
    reranked: int
    excess: int
    overlap: float | None
    exhausted: float


def settle(
    approximate: TopK,
    beyond: Beyond,
    k: int,
    tolerance: float,
    checked: Int[Tensor, " c"],
    queries: Float[Tensor, "b d"],
    buffer: Vectors,
    corrector: Corrector,
    draw: Draw | None,
) -> Settled:
    """Choose the top k of an approximate ranking that reaches deeper.

    Args:
        approximate: Ranked targets of each query, more than k, best first.
        beyond: What those that are not among them may score.
        k: How many to choose.
        tolerance: How near to the k-th score is in doubt.
        checked: Queries for which everything is reranked, to see what the others miss.
        queries: Whose targets they are.
        buffer: Their stale embeddings.
        corrector: Gives the exact scores.
        draw: Noise that the approximate scores hold, and exact ones shall too.
    """
    if approximate.rows.shape[1] == k:
        doubted = torch.ones_like(approximate.rows, dtype=torch.bool)
        exact = _exact(approximate.rows, doubted, queries, buffer, corrector, draw)
        return Settled(_choose(approximate, exact, doubted, k), None, doubted.numel(), 0, None, 0.0)
    border = approximate.scores[:, k - 1 : k + 1].mean(dim=1, keepdim=True)
    narrow = (approximate.scores - border).abs() <= tolerance
    always = slice(max(0, k - _ALWAYS), k + _ALWAYS)
    excess = int(narrow.sum() - narrow[:, always].sum())
    narrow[:, always] = True
    wide = narrow.clone()
    wide[checked] = True
    exact = _exact(approximate.rows, wide, queries, buffer, corrector, draw)
    best = _choose(approximate, exact, wide, k)
    overlap = None
    if len(checked):
        some = TopK(approximate.scores[checked], approximate.rows[checked])
        seen = _choose(some, exact[checked], narrow[checked], k)
        overlap = agreement(seen.rows, best.rows[checked])
    error = _error(exact - approximate.scores, wide)
    doubt = beyond.doubt.square().add(tolerance**2).sqrt()  # of two independent errors
    exhausted = (border - beyond.score <= doubt).float().mean().item()
    return Settled(best, error, int(wide.sum()), excess, overlap, exhausted)


def settle_between(
    found: TopK,
    low: Float[Tensor, "b 1"],
    high: Float[Tensor, "b 1"],
    tolerance: float,
    queries: Float[Tensor, "b d"],
    buffer: Vectors,
    corrector: Corrector,
    draw: Draw | None,
) -> TopK:
    """Score exactly what was found between two scores, or so near to them that it is in doubt."""
    doubted = (found.scores >= low - tolerance) & (found.scores <= high + tolerance)
    exact = _exact(found.rows, doubted, queries, buffer, corrector, draw)
    return TopK(torch.where(doubted, exact, found.scores), found.rows)


def agreement(one: Int[Tensor, "b k"], other: Int[Tensor, "b k"]) -> float:
    """Return the share of rows that two answers have in common.

    Example:
        >>> agreement(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[2, 1], [5, 4]]))
        0.75
    """
    return (one[:, :, None] == other[:, None, :]).any(dim=2).float().mean().item()


def _exact(
    rows: Int[Tensor, "b m"],
    wanted: Bool[Tensor, "b m"],
    queries: Float[Tensor, "b d"],
    buffer: Vectors,
    corrector: Corrector,
    draw: Draw | None,
) -> Float[Tensor, "b m"]:
    """Score the wanted rows through the corrector, each distinct row once; 0 for the others."""
    query = wanted.nonzero()[:, 0]
    distinct, place = rows[wanted].unique(return_inverse=True)
    scores, score = queries.new_empty(len(queries), len(distinct)), corrector.scorer(queries)
    for start in range(0, len(distinct), CORRECTED):
        scores[:, start : start + CORRECTED] = score(buffer[distinct[start : start + CORRECTED]])
    if draw is not None:
        scores = scores + draw.gumbel(draw.step, draw.queries, distinct)
    exact = queries.new_zeros(rows.shape)
    exact[wanted] = scores[query, place]
    return exact


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
