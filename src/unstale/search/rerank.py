"""Stale top-L, reranked by the corrector: the paper's second answer to a buffer that does not fit.

"Use our approach to re-rank stale representations initially retrieved from CPU memory."
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.search.added import Added
from unstale.search.best import TopK
from unstale.search.exact import Exact
from unstale.search.search import Search


@final
class StaleRerank(Search):
    """Take each query's L best by stale scores, and the k best of those by corrected ones.

    The buffer may be on disk, or in another memory than the queries: it is scanned where it is.
    """

    def __init__(self, buffer: TargetBuffer, corrector: Corrector, depth: int) -> None:
        self.buffer = buffer
        self.corrector = corrector
        self.depth = depth
        self._stale = Exact(buffer)

    @torch.no_grad()
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        added: Added | None = None,
    ) -> TopK:
        """Return the k best targets by the corrector among the stale top L."""
        width = 0 if exclude is None else exclude.shape[1]
        depth = max(k, min(self.depth, len(self.buffer) - width))
        here = self.buffer.device
        known = None if exclude is None else exclude.to(here)
        rows = self._stale.top_k(queries.to(here), depth, known).rows.to(queries.device)
        distinct, place = rows.unique(return_inverse=True)
        scores = self.corrector.scores(queries, self.buffer[distinct]).gather(1, place)
        if added is not None:
            scores = scores + added.scores(distinct).gather(1, place)
        best = scores.topk(k, dim=1)
        return TopK(best.values, rows.gather(1, best.indices))
