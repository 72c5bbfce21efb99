"""Exact top-k: every target scored, a chunk at a time."""

from functools import partial
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.corrector.dots import dots
from unstale.corrector.network import Corrector, Scorer
from unstale.search.added import Added
from unstale.search.best import TopK, drop, merge, nothing
from unstale.search.search import Search, check_k
from unstale.search.vectors import Vectors, on_device

_CHUNK_BYTES = 24 * 2**20  # measured: what stays in the last-level cache between two layers


@final
class Exact(Search):
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

    @torch.no_grad()
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        added: Added | None = None,
    ) -> TopK:
        """Return the k best targets of each query, none of which is among its excluded rows."""
        width = 0 if exclude is None else exclude.shape[1]
        check_k(k, self.buffer)
        fetch = min(k + width, len(self.buffer))
        size = self.chunk or chunk_rows(self.corrector, queries)
        best = nothing(queries)
        score = self._scorer(queries)
        for start, stale in on_device(self.buffer.chunks(size), queries.device):
            scores = score(stale)
            if added is not None:
                places = torch.arange(start, start + len(stale), device=queries.device)
                scores = scores + added.scores(self._corpus_rows(places))
            best = merge(best, scores, start, fetch)
        best = TopK(best.scores, self._corpus_rows(best.rows))
        return best if exclude is None else drop(best, exclude, k)

    def _corpus_rows(self, places: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        return places if self.rows is None else self.rows.to(places.device)[places]

    def _scorer(self, queries: Float[Tensor, "b d"]) -> Scorer:
        return partial(dots, queries) if self.corrector is None else self.corrector.scorer(queries)


def chunk_rows(corrector: Corrector | None, queries: Float[Tensor, "b d"]) -> int:
    """Choose how many targets to score at once, by the floats that each needs on the way."""
    floats = sum(queries.shape) + (0 if corrector is None else corrector.held(len(queries)))
    return min(16_384, max(1024, _CHUNK_BYTES // (4 * floats)))
