"""The paper's two answers to a buffer that does not fit into memory; it may stay on disk.

"Subsample targets randomly (perhaps changing the subset periodically) to fit on device memory",
and "use our approach to re-rank stale representations initially retrieved from CPU memory".
"""

from typing import final

import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.search.best import TopK
from unstale.search.draws import subset
from unstale.search.exact import Exact
from unstale.search.rescore import ExactScores
from unstale.search.search import Asked, Search


@final
class RotatingSubset(Search):
    """Search `size` random targets through the corrector; they change after `every` steps.

    Only the subset is in memory, where the corrector is.
    """

    def __init__(
        self, buffer: TargetBuffer, corrector: Corrector, *, size: int, every: int, seed: int
    ) -> None:
        self.buffer = buffer
        self.corrector = corrector
        self.size = min(size, len(buffer))
        self.every = max(1, every)
        self.seed = seed
        self._epoch = -1
        self.begin(0)

    def begin(self, step: int) -> None:
        """Change the subset if it is time; it is a function of the step alone."""
        if step // self.every != self._epoch:
            self._epoch = step // self.every
            rows = subset(len(self.buffer), self.size, self.seed, self._epoch)
            vectors = self.buffer[rows.to(self.corrector.last.weight.device)]
            self._exact = Exact(TargetBuffer([vectors]), self.corrector, rows=rows)

    def find(self, asked: Asked, k: int) -> TopK:
        """Return the k best targets of the subset."""
        return self._exact.find(asked, k)


@final
class StaleRerank(Search):
    """Take each query's `depth` best by stale scores, and the k best of those by corrected ones.

    The buffer may be in another memory than the queries: it is scanned where it is.
    """

    def __init__(self, buffer: TargetBuffer, corrector: Corrector, depth: int) -> None:
        self.buffer = buffer
        self.corrector = corrector
        self.depth = depth

    def find(self, asked: Asked, k: int) -> TopK:
        """Return the k best targets by the corrector among the best stale ones."""
        queries, exclude, _ = asked
        depth = max(k, min(self.depth, len(self.buffer) - asked.width))
        here = self.buffer.device
        there = Asked(queries.to(here), None if exclude is None else exclude.to(here))
        rows = Exact(self.buffer).find(there, depth).rows.to(queries.device)
        exact = ExactScores(asked, self.buffer, self.corrector)
        best = exact.of(rows, torch.ones_like(rows, dtype=torch.bool)).topk(k, dim=1)
        return TopK(best.values, rows.gather(1, best.indices))
