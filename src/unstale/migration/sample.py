"""Which targets are worth embedding anew: to teach a corrector, or because queries find them most?

Held-out targets are always drawn uniformly, or no interval made of them would mean anything. What
queries find is ranked where the corrector puts it, never by the fresh vector of a held-out target.
So a held-out target is ranked as it would be had nobody embedded it, and those that the ranking
leaves behind are a uniform sample of all that it leaves behind: intervals made of them stay true.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.migration.index import Chunks
from unstale.migration.settings import LEAST_HELD_OUT
from unstale.migration.validate import GROUPS
from unstale.search.best import merge, nothing
from unstale.search.sharded import merge_processes

HELD_OUT = 0.2  # of the sample


class Picked(NamedTuple):
    """A choice of targets to embed, sorted, and rows that it sets apart.

    A sample sets apart those of its own rows that are held out. What is embedded later sets apart
    held-out rows, too: those that it would have taken, had they not been embedded already.
    """

    rows: Int[ndarray, " n"]
    apart: Int[ndarray, " a"]


def choose(rows: int, size: int, seed: int) -> Picked:
    """Choose rows to embed, and set those to hold out apart."""
    generator = np.random.default_rng(seed)
    held = generator.permutation(rows)[: max(LEAST_HELD_OUT, round(HELD_OUT * size))]
    left = np.setdiff1d(np.arange(rows), held)
    taught = generator.permutation(left)[: size - len(held)]
    return Picked(np.sort(np.concatenate([held, taught])), np.sort(held))


def retrieval_scores(
    queries: Float[Tensor, "q e"], index: Chunks, rows: int, depth: int
) -> Float[ndarray, " rows"]:
    """Score each target by how often and how high queries find it: the sum of 1 / rank.

    Example:
        >>> index = [(0, torch.tensor([[3.0], [1.0], [2.0]]))]
        >>> retrieval_scores(torch.ones(2, 1), index, rows=3, depth=2).tolist()  # first, -, second
        [2.0, 0.0, 1.0]
    """
    best = nothing(queries)
    for start, vectors in index:
        best = merge(best, (queries.to(vectors.device) @ vectors.T).cpu(), start, depth)
    best = merge_processes(best, depth)
    worth = (1 / torch.arange(1, best.rows.shape[1] + 1)).expand(best.rows.shape)
    return torch.zeros(rows).index_add_(0, best.rows.flatten(), worth.flatten()).numpy()


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
    place = np.argsort(order)
    picked = order[~np.isin(order, embedded)][:wanted]
    apart = held_out[place[held_out] < place[picked].max(initial=-1)]
    if len(held_out) - len(apart) < GROUPS:
        apart = apart[:0]
    return Picked(np.sort(picked), apart)
