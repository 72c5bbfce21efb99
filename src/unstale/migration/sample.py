"""Which targets are worth embedding anew: to teach a corrector, or because they matter most?

Held-out targets are always drawn uniformly, or no interval made of them would mean anything; the
rest are chosen to teach. The rules for what matters most see where the corrector puts a target,
never the fresh vector of a held-out one. So a held-out target is ranked as it would be had nobody
embedded it, and those that a rule leaves behind are a uniform sample of all that it leaves behind:
intervals made of them stay true.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.migration.faiss_index import load_faiss
from unstale.migration.settings import LEAST_HELD_OUT, Sampling
from unstale.migration.stale import StaleVectors
from unstale.migration.validate import GROUPS
from unstale.search.best import merge, nothing

HELD_OUT = 0.2  # of the sample
RIDGE = 0.1  # times the mean variance of the taught vectors: directions they never showed
_KMEANS_ROWS = 50_000  # the most that k-means learns its cells from


class Picked(NamedTuple):
    """A choice of targets to embed, sorted, and rows that it sets apart.

    A sample sets apart those of its own rows that are held out. What is embedded later sets apart
    held-out rows, too: those that it would have taken, had they not been embedded already.
    """

    rows: Int[ndarray, " n"]
    apart: Int[ndarray, " a"]


def choose(source: StaleVectors, size: int, how: Sampling, seed: int) -> Picked:
    """Choose rows to embed, and set those to hold out apart.

    For a sample by queries this is the uniform beginning: the held-out targets and half of the
    others. Where the queries' neighbours are is known only once a corrector is fitted to it.
    """
    generator = np.random.default_rng(seed)
    held = generator.permutation(source.rows)[: max(LEAST_HELD_OUT, round(HELD_OUT * size))]
    left = np.setdiff1d(np.arange(source.rows), held)
    wanted = size - len(held)
    if how == "coverage":
        taught = _covering(source, left, wanted, seed)
    else:
        taught = generator.permutation(left)[: wanted // 2 if how == "queries" else wanted]
    return Picked(np.sort(np.concatenate([held, taught])), np.sort(held))


def _covering(
    source: StaleVectors, left: Int[ndarray, " m"], wanted: int, seed: int
) -> Int[ndarray, " w"]:
    """Draw from every k-means cell of the stale vectors alike, so that rare kinds are taught."""
    faiss = load_faiss()
    generator = np.random.default_rng(seed + 1)
    cells = max(1, min(wanted // 4, 1024))
    learn = np.sort(generator.permutation(source.rows)[:_KMEANS_ROWS])
    kmeans = faiss.Kmeans(
        source.dim, cells, niter=10, seed=seed, min_points_per_centroid=1,
        max_points_per_centroid=max(1, len(learn) // cells + 1),
    )  # fmt: skip
    kmeans.train(np.ascontiguousarray(source.take(learn)))
    cell = np.concatenate([kmeans.index.search(v, 1)[1][:, 0] for _, v in source.chunks()])[left]
    # A turn at a time: the first row of every cell, then the second of those that have one, ...
    shuffled = generator.permutation(len(left))
    order = shuffled[np.argsort(cell[shuffled], kind="stable")]
    starts = np.searchsorted(cell[order], cell[order])
    turn = np.arange(len(order)) - starts
    return left[order[np.lexsort((generator.random(len(order)), turn))[:wanted]]]


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
