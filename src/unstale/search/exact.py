"""Exact top-k: every target scored, a chunk at a time."""

from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.errors import InputError
from unstale.search.draws import Gumbel


class Draw(NamedTuple):
    """Noise for a sample instead of a top-k: the generator, and what keys it."""

    gumbel: Gumbel
    step: int
    queries: Int[Tensor, " b"]


class TopK(NamedTuple):
    """The best targets of each query, best first."""

    scores: Float[Tensor, "b k"]
    rows: Int[Tensor, "b k"]


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

    Memory beyond the buffer is one chunk: `chunk * (hidden + queries)` floats.

    Args:
        buffer: What to search.
        corrector: Through which to see it, if any.
        chunk: Targets scored at once.
        rows: The corpus rows of a buffer that holds only some of it.
    """

    def __init__(
        self,
        buffer: TargetBuffer,
        corrector: Corrector | None = None,
        chunk: int = 8192,
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
        fetch = min(k + width, len(self.buffer))
        if k > len(self.buffer):
            raise InputError(f"cannot take the top {k} of a buffer of {len(self.buffer)} targets")
        best = TopK(
            queries.new_full((len(queries), 0), -torch.inf),
            torch.zeros(len(queries), 0, dtype=torch.long, device=queries.device),
        )
        for start, stale in self.buffer.chunks(self.chunk):
            scores = self._scores(queries, stale.to(queries.device))
            if draw is not None:
                places = torch.arange(start, start + len(stale), device=queries.device)
                scores = scores + draw.gumbel(draw.step, draw.queries, self._corpus_rows(places))
            best = merge(best, scores, start, fetch)
        best = TopK(best.scores, self._corpus_rows(best.rows))
        return best if exclude is None else drop(best, exclude, k)

    def _corpus_rows(self, places: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        return places if self.rows is None else self.rows.to(places.device)[places]

    def _scores(
        self, queries: Float[Tensor, "b d"], stale: Float[Tensor, "n d"]
    ) -> Float[Tensor, "b n"]:
        if self.corrector is None:
            return queries @ stale.T
        return self.corrector.scores(queries, stale)


def merge(best: TopK, scores: Float[Tensor, "b n"], start: int, k: int) -> TopK:
    """Merge a chunk's scores, whose first row is `start`, into the best so far."""
    top = scores.topk(min(k, scores.shape[1]), dim=1)
    scores = torch.cat([best.scores, top.values], dim=1)
    rows = torch.cat([best.rows, top.indices + start], dim=1)
    keep = scores.topk(min(k, scores.shape[1]), dim=1)
    return TopK(keep.values, rows.gather(1, keep.indices))


def drop(best: TopK, exclude: Int[Tensor, "b p"], k: int) -> TopK:
    """Keep the first k rows of each query that are not excluded (-1 excludes nothing)."""
    banned = (best.rows[:, :, None] == exclude[:, None, :]).any(dim=2)
    if ((~banned).sum(dim=1) < k).any():
        raise InputError(f"cannot mine {k} targets for a query: too few are not its positives")
    order = banned.int().argsort(dim=1, stable=True)[:, :k]
    return TopK(best.scores.gather(1, order), best.rows.gather(1, order))
