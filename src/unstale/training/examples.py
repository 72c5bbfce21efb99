"""What did mining miss? Some queries, their true nearest targets, and what the caches offer."""

from typing import final

import numpy as np
import torch
from jaxtyping import Int
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.dataset import Positives, RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.evaluation.nearest import Nearest
from unstale.miners.miner import Miner
from unstale.results import ExampleQuery, ListedTarget
from unstale.search.best import TopK, in_order

Scores = dict[int, float]  # by row, the best first
TEXT = 300  # characters of a text to keep
_DEPTH = 100  # true ranks that are known


@final
class NearestExamples:
    """List the targets nearest to some queries: truly, and as the miner's cache has them.

    The true ones are those of a corpus that is being encoded for another reason, which `true` is to
    watch; so it costs no encoding. Known positives are in no list. The queries depend on the seed
    alone, so that strategies can be compared on the same ones.

    Args:
        miner: Whose view of the corpus to show; a miner that caches nothing has no examples.
        positives: The rows that are never a query's negatives.
        k: How many targets to list for each.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        miner: Miner,
        dataset: RetrievalDataset,
        positives: Positives,
        *,
        step: int,
        queries: int = 5,
        k: int = 5,
        seed: int = 0,
    ) -> None:
        pairs = dataset.split("train").pairs
        first = np.unique(pairs[:, 0], return_index=True)[1]  # of each query, its first label
        self._pairs = pairs[np.random.default_rng(seed).permutation(first)[:queries]]
        self._banned = positives(self._pairs[:, 0])  # (q, p)
        self._k, self._targets = k, len(dataset.targets)
        self._dataset, self._miner, self._step = dataset, miner, step
        texts = dataset.queries.take(self._pairs[:, 0])
        self._queries = embed_queries(model, texts).to(model.device)  # (q, d)
        self.true: Nearest | None = None  # is to see the corpus; None for a miner without a cache
        any_row = torch.zeros(1, dtype=torch.long, device=model.device)
        if miner.view(any_row, step) is not None:
            self.true = Nearest(self._queries, self._reach(_DEPTH))

    def listed(self) -> list[ExampleQuery]:
        """Return the examples; a miner that searches no corrected view lists none there."""
        if self.true is None:
            return []
        ranked = self._miner.ranked(self._queries, self._reach(self._k), self._step)
        assert ranked is not None
        true = self._allowed(self.true.best(), _DEPTH)
        stale = self._seen(ranked.stale, corrected=False)
        corrected: list[Scores] = [{} for _ in stale]
        if ranked.corrected is not None:
            corrected = self._seen(ranked.corrected, corrected=True)
        return [
            ExampleQuery(
                query=self._dataset.queries[query][:TEXT],
                label=ListedTarget(target, self._dataset.targets[target][:TEXT]),
                true=self._list(true[i], true[i]),
                stale=self._list(stale[i], true[i]),
                corrected=self._list(corrected[i], true[i]),
            )
            for i, (query, target) in enumerate(self._pairs.tolist())
        ]

    @torch.no_grad()
    def _seen(self, rows: Int[Tensor, "q m"], *, corrected: bool) -> list[Scores]:
        """Score targets as the miner sees them; none if it does not search that view."""
        view = self._miner.view(rows.flatten(), self._step)
        assert view is not None
        vectors = view.searched if corrected else view.stale
        if corrected and not view.trusted:
            return [{} for _ in rows]
        scores = (vectors.unflatten(0, rows.shape) @ self._queries[:, :, None])[:, :, 0]
        return self._allowed(in_order(TopK(scores.cpu(), rows.cpu())), self._k)

    def _reach(self, k: int) -> int:
        return min(k + self._banned.shape[1], self._targets)

    def _allowed(self, best: TopK, k: int) -> list[Scores]:
        """Keep the first k of each query that are no known positives."""
        ranked = zip(best.rows.tolist(), best.scores.tolist(), self._banned.tolist(), strict=True)
        return [
            dict([pair for pair in zip(rows, scores, strict=True) if pair[0] not in banned][:k])
            for rows, scores, banned in ranked
        ]

    def _list(self, scores: Scores, true: Scores) -> list[ListedTarget]:
        rows, ranks = list(scores)[: self._k], {row: i for i, row in enumerate(true, 1)}
        return [
            ListedTarget(row, text[:TEXT], round(scores[row], 4), ranks.get(row))
            for row, text in zip(rows, self._dataset.targets.take(rows), strict=True)
        ]
