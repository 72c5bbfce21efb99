"""Which targets are worth embedding anew, so that a corrector learns from them?

Held-out targets are always drawn uniformly, or no interval made of them would mean anything; the
rest are chosen to teach.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.errors import InputError
from unstale.migrate.faiss_source import load_faiss
from unstale.migrate.source import Source

Sampling = Literal["uniform", "coverage", "queries"]
HELD_OUT = 0.2  # of the sample
LEAST_HELD_OUT = 20
_KMEANS_ROWS = 50_000  # k-means learns its cells on at most so many


class Picked(NamedTuple):
    """A choice of targets to embed, sorted, and rows that it sets apart.

    A sample sets apart those of its own rows that are held out. What is embedded later sets apart
    held-out rows, too: those that it would have taken, had they not been embedded already.
    """

    rows: Int[ndarray, " n"]
    apart: Int[ndarray, " a"]


def sample_size(rows: int, dim: int, fraction: float | None, count: int | None) -> int:
    """Turn a fraction or a count into a number of targets, or say why it cannot be.

    A tenth of the width, and 40 pairs, is the least that a regularised linear map can be fitted to
    with any use; at least 20 more are held out.

    Example:
        >>> sample_size(rows=10_000, dim=384, fraction=0.05, count=None)
        500
    """
    if (fraction is None) == (count is None):
        raise InputError("say how much to embed by one of --fraction, --count and --seconds")
    if fraction is not None and not 0 < fraction <= 1:
        raise InputError(f"--fraction must be above 0 and at most 1, got {fraction}")
    size = round(fraction * rows) if fraction is not None else int(count or 0)
    least = max(40, dim // 10) + LEAST_HELD_OUT
    if size < least:
        rule = f"vectors of width {dim} need at least {least}"
        raise InputError(f"a sample of {size} of {rows} targets is too small: {rule}")
    if size > rows:
        raise InputError(f"cannot sample {size} of {rows} targets")
    return size


def choose(source: Source, size: int, how: Sampling, seed: int) -> Picked:
    """Choose rows to embed, and set those to hold out apart.

    Of a sample by queries this is the uniform beginning: the held-out targets and half of the
    others. Where the queries' neighbours are can be told only once a corrector is fitted to it.
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
    source: Source, left: Int[ndarray, " m"], wanted: int, seed: int
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
