"""Which targets matter most, so that embedding them for real pays most?

The rules see where the corrector puts a target, never the fresh vector of a held-out one. So a
held-out target is ranked as it would be had nobody embedded it, and those that a rule leaves
behind are a uniform sample of all that it leaves behind: intervals made of them stay true.
"""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.migration.sample import Picked
from unstale.migration.stale import StaleVectors
from unstale.migration.validate import GROUPS
from unstale.search.best import merge, nothing

RIDGE = 0.1  # times the mean variance of the taught vectors: directions they never showed


def retrieval_scores(
    queries: Float[Tensor, "q e"],
    index: Iterable[tuple[int, Float[Tensor, "_ e"]]],
    rows: int,
    depth: int,
) -> Float[ndarray, " rows"]:
    """Score each target by how often and how high queries find it: the sum of 1 / rank.

    Example:
        >>> index = [(0, torch.tensor([[3.0], [1.0], [2.0]]))]
        >>> retrieval_scores(torch.ones(2, 1), index, rows=3, depth=2).tolist()  # first, -, second
        [2.0, 0.0, 1.0]
    """
    best = nothing(queries)
    for start, vectors in index:
        best = merge(best, queries @ vectors.T, start, depth)
    worth = 1 / torch.arange(1, best.rows.shape[1] + 1)
    scores = torch.zeros(rows).index_add_(
        0, best.rows.flatten(), worth.expand(best.rows.shape).flatten()
    )
    return scores.numpy()


def error_scores(source: StaleVectors, taught: Float[Tensor, "t d"]) -> Float[ndarray, " rows"]:
    """Score each target by how badly its fresh vector is likely to be predicted.

    That is its leverage: the squared distance of its stale vector from the mean of the taught ones,
    counted most in the directions in which those vary least. The variance of a regularised linear
    map's predictions grows with it.

    `taught` are those that the corrector was fitted to.
    """
    mean = taught.double().mean(dim=0)
    apart = taught.double() - mean
    spread = apart.T @ apart / len(taught)
    spread += RIDGE * spread.diagonal().mean() * torch.eye(len(spread), dtype=spread.dtype)
    # |root @ v|^2 is v' spread^-1 v: one product with the vectors, in their own precision.
    root = torch.linalg.inv(torch.linalg.cholesky(spread)).float()
    return np.concatenate(
        [
            ((torch.from_numpy(stale) - mean.float()) @ root.T).square().sum(dim=1).numpy()
            for _, stale in source.chunks()
        ]
    )


def most(
    scores: Float[ndarray, " n"],
    embedded: Int[ndarray, " e"],
    held_out: Int[ndarray, " h"],
    wanted: int,
    seed: int,
) -> Picked:
    """Pick the rows with the highest scores among those that are not embedded; ties by lot.

    Set apart are the held-out rows that rank as high. If too few others would be left to judge by,
    none are.
    """
    order = np.lexsort((np.random.default_rng(seed).random(len(scores)), -scores))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    picked = order[~np.isin(order, embedded)][:wanted]
    apart = held_out[place[held_out] < place[picked].max(initial=-1)]
    if len(held_out) - len(apart) < GROUPS:
        apart = apart[:0]
    return Picked(np.sort(picked), apart)
