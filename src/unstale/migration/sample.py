"""Which targets are worth embedding anew, so that a corrector learns from them?

Held-out targets are always drawn uniformly, or no interval made of them would mean anything; the
rest are chosen to teach.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.migration.faiss_index import load_faiss
from unstale.migration.settings import LEAST_HELD_OUT, Sampling
from unstale.migration.stale import StaleVectors

HELD_OUT = 0.2  # of the sample
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
