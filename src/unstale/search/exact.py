"""Exact top-k: every target scored, a chunk at a time."""

from functools import partial
from typing import final

from jaxtyping import Int
from torch import Tensor

from unstale.corrector.dots import dots
from unstale.corrector.network import Corrector
from unstale.search.best import TopK, merge, nothing
from unstale.search.search import Asked, Search, check_k
from unstale.search.vectors import Vectors, chunk_rows, on_device


@final
class Exact(Search):
    """Score every target, through the corrector if there is one; keep the best as it goes.

    The corrector's output layer moves to the queries when these are fewer than the dimensions,
    see `Corrector.scores`. Memory beyond the buffer is one chunk: `chunk * (hidden + queries)`
    floats; a memory-mapped buffer is read a chunk at a time, so that it may be larger than memory.

    Args:
        chunk: Targets scored at once; by default what suits the device of the queries.
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

    def find(self, asked: Asked, k: int) -> TopK:
        """Score chunk after chunk, and keep the k best that are not excluded."""
        check_k(k, len(self.buffer))
        queries, h, best = asked.queries, self.corrector, nothing(asked.queries)
        score = partial(dots, queries) if h is None else h.scorer(queries)
        floats = sum(queries.shape) + (0 if h is None else h.held(len(queries)))  # of a target
        size = self.chunk or chunk_rows(queries.device, floats)
        for start, stale in on_device(self.buffer.chunks(size), queries.device):
            scores = score(stale)
            if asked.added is not None:
                scores = scores + asked.added.scores(self._corpus_rows(start, len(stale)))
            best = merge(best, scores, start, min(k + asked.width, len(self.buffer)))
        if self.rows is not None:
            best = TopK(best.scores, self.rows.to(queries.device)[best.rows])
        return asked.allowed(best, k)

    def _corpus_rows(self, start: int, count: int) -> Int[Tensor, " n"] | slice:
        here = slice(start, start + count)
        return here if self.rows is None else self.rows[here]
