"""The best k of many scores, without sorting what cannot be among them."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.errors import InputError

_GROUP = 16  # scores to a group; measured: 8 to 40 differ little


class TopK(NamedTuple):
    """The best targets of each query, best first."""

    scores: Float[Tensor, "b k"]
    rows: Int[Tensor, "b k"]


def merge(best: TopK, scores: Float[Tensor, "b n"], start: int, k: int) -> TopK:
    """Merge a chunk's scores, whose first row is `start`, into the best k so far.

    Example:
        >>> one = merge(nothing(torch.zeros(1, 4)), torch.tensor([[1.0, 3.0, 2.0]]), 0, k=2)
        >>> merge(one, torch.tensor([[2.5]]), 3, k=2).rows.tolist()
        [[1, 3]]
    """
    floor = best.scores[:, k - 1 : k] if best.scores.shape[1] >= k else None
    new = _candidates(scores, k, floor)
    return merge_best(best, TopK(new.scores, new.rows + start), k)


def merge_best(one: TopK, other: TopK, k: int) -> TopK:
    """Take the best k of two lists of each query."""
    scores = torch.cat([one.scores, other.scores], dim=1)
    rows = torch.cat([one.rows, other.rows], dim=1)
    keep = scores.topk(min(k, scores.shape[1]), dim=1)
    return TopK(keep.values, rows.gather(1, keep.indices))


def _candidates(scores: Float[Tensor, "b n"], k: int, floor: Float[Tensor, "b 1"] | None) -> TopK:
    """Return some of the scores, in any order, the k best above the floor among them.

    The k best lie in the k groups with the largest maxima, and in no group whose maximum is not
    above the floor. Maxima are one fast pass, and what is left to sort is a small share; a plain
    `topk` of all costs a third of a scan.
    """
    b, n = scores.shape
    groups = n // _GROUP
    # A group is every groups-th score: the maximum then runs along contiguous memory.
    whole = scores[:, : groups * _GROUP].unflatten(1, (_GROUP, groups))
    maxima = whole.amax(dim=1)
    wanted = k
    if floor is not None and scores.device.type == "cpu":  # elsewhere the host would wait for it
        wanted = min(k, int((maxima > floor).sum(dim=1).max()))
    if 2 * wanted > groups:
        return TopK(*scores.topk(min(k, n), dim=1))
    chosen = maxima.topk(wanted, dim=1, sorted=False).indices
    index = chosen[:, None, :].expand(b, _GROUP, wanted)
    offset = torch.arange(_GROUP, device=scores.device)[None, :, None] * groups
    left = torch.arange(groups * _GROUP, n, device=scores.device).expand(b, -1)  # fill no group
    return TopK(
        torch.cat([whole.gather(2, index).flatten(1), scores[:, groups * _GROUP :]], dim=1),
        torch.cat([(index + offset).flatten(1), left], dim=1),
    )


def nothing(queries: Float[Tensor, "b d"]) -> TopK:
    """Return the best so far of a search that has not begun."""
    rows = torch.zeros(len(queries), 0, dtype=torch.long, device=queries.device)
    return TopK(queries.new_zeros(len(queries), 0), rows)


def drop(best: TopK, exclude: Int[Tensor, "b p"], k: int) -> TopK:
    """Keep the first k rows of each query that are not excluded (-1 excludes nothing)."""
    banned = (best.rows[:, :, None] == exclude[:, None, :]).any(dim=2)
    if ((~banned).sum(dim=1) < k).any():
        raise InputError(f"cannot mine {k} targets for a query: too few are not its positives")
    order = banned.int().argsort(dim=1, stable=True)[:, :k]
    return TopK(best.scores.gather(1, order), best.rows.gather(1, order))


def in_order(best: TopK) -> TopK:
    """Order each query's targets by score, those of equal scores by row.

    Example:
        >>> in_order(TopK(torch.tensor([[2.0, 1.0, 2.0]]), torch.tensor([[7, 5, 3]]))).rows
        tensor([[3, 7, 5]])
    """
    by_row = best.rows.argsort(dim=1)
    scores = best.scores.gather(1, by_row)
    order = by_row.gather(1, scores.argsort(dim=1, descending=True, stable=True))
    return TopK(best.scores.gather(1, order), best.rows.gather(1, order))


def agreement(one: Int[Tensor, "b k"], other: Int[Tensor, "b k"]) -> float:
    """Return the share of rows that two answers have in common.

    Example:
        >>> agreement(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[2, 1], [5, 4]]))
        0.75
    """
    return (one[:, :, None] == other[:, None, :]).any(dim=2).float().mean().item()
