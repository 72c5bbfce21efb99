"""Exact top-k: every target scored, a chunk at a time."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.corrector.dots import dots
from unstale.corrector.network import Corrector, Scorer
from unstale.errors import InputError
from unstale.search.best import TopK, drop, merge, nothing
from unstale.search.draws import Noise
from unstale.search.vectors import Vectors, on_device

__all__ = ["Draw", "Exact", "Search", "TopK", "drop", "merge"]

_CHUNK_BYTES = 24 * 2**20  # measured: what stays in the last-level cache between two layers


class Draw(NamedTuple):
    """What to add to scores: the generator, and what keys it.

    `late` gives the same for some rows of each query, where an approximate search may leave it out
    until it knows which targets are among the best.
    """

    gumbel: Noise
    step: int
    queries: Int[Tensor, " b"]
    late: Callable[[Int[Tensor, "b m"]], Float[Tensor, "b m"]] | None = None


@runtime_checkable
class Search(Protocol):
    """Find the best targets for some queries; miners do not know which search they use."""

    def begin(self, step: int) -> None:
        """Prepare for a training step; called before its searches."""
        ...

    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        draw: Draw | None = None,
    ) -> TopK:
        """Return the k best targets of each query, none of which is among its excluded rows."""
        ...


@final
class Exact:
    """Score every target, through the corrector if there is one; keep the best as it goes.

    The corrector's output layer moves to the queries when these are fewer than the dimensions,
    see `Corrector.scores`. Memory beyond the buffer is one chunk: `chunk * (hidden + queries)`
    floats; a memory-mapped buffer is read a chunk at a time, so that it may be larger than memory.

    Args:
        buffer: What to search.
        corrector: Through which to see it, if any.
        chunk: Targets scored at once; by default what the processor's cache holds.
        rows: The corpus rows of a buffer that holds only some of it.
    """

    def __init__(
        self,
        buffer: Vectors,
        corrector: Corrector | None = None,
        chunk: int | None = None,
        rows: Int[Tensor, " n"] | None = None,
    ) -> None:
        self.buffer = buffer
        self.corrector = corrector
        self.chunk = chunk
        self.rows = rows

    def begin(self, step: int) -> None:
        """Nothing changes from step to step."""

    @torch.no_grad()
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        draw: Draw | None = None,
    ) -> TopK:
        """Return the k best targets of each query, none of which is among its excluded rows."""
        width = exclude.shape[1] if exclude is not None else 0
        check_k(k, self.buffer)
        fetch = min(k + width, len(self.buffer))
        size = self.chunk or chunk_rows(self.corrector, queries)
        best = nothing(queries)
        score = self._scorer(queries)
        for start, stale in on_device(self.buffer.chunks(size), queries.device):
            scores = score(stale)
            if draw is not None:
                places = torch.arange(start, start + len(stale), device=queries.device)
                scores = scores + draw.gumbel(draw.step, draw.queries, self._corpus_rows(places))
            best = merge(best, scores, start, fetch)
        best = TopK(best.scores, self._corpus_rows(best.rows))
        return best if exclude is None else drop(best, exclude, k)

    def _corpus_rows(self, places: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        return places if self.rows is None else self.rows.to(places.device)[places]

    def _scorer(self, queries: Float[Tensor, "b d"]) -> Scorer:
        return partial(dots, queries) if self.corrector is None else self.corrector.scorer(queries)


def check_k(k: int, vectors: Vectors) -> None:
    """Refuse to take more targets than there are."""
    if k > len(vectors):
        raise InputError(f"cannot take the top {k} of a buffer of {len(vectors)} targets")


def chunk_rows(corrector: Corrector | None, queries: Float[Tensor, "b d"]) -> int:
    """Choose how many targets to score at once, by the floats that each needs on the way."""
    floats = sum(queries.shape) + (0 if corrector is None else corrector.held(len(queries)))
    return min(16_384, max(1024, _CHUNK_BYTES // (4 * floats)))
