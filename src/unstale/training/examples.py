"""What did mining miss? Some queries, their true nearest targets, and what the caches offer."""

from collections.abc import Iterable, Iterator
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.dataset import Positives, RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.miners.miner import Miner
from unstale.results import ExampleQuery, ListedTarget
from unstale.search.best import TopK, merge, nothing

TEXT = 300  # characters of a text to keep
_CHUNK = 4096  # targets that the miner shows at a time
_DEPTH = 100  # true ranks that are known


@final
class NearestExamples:
    """List the targets nearest to some queries: truly, and as the miner's cache has them.

    It watches a corpus that is being encoded for another reason, so it costs no encoding. Known
    positives are in no list. The queries depend on the seed alone, so that strategies can be
    compared on the same ones.

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
        self._banned = torch.from_numpy(positives(self._pairs[:, 0]))  # (q, p)
        self._k = k
        self._dataset, self._miner, self._step = dataset, miner, step
        self._device = model.device
        self._queries = embed_queries(model, dataset.queries.take(self._pairs[:, 0]))  # (q, d)
        self._best: dict[str, TopK] = {}  # by view; empty if there is nothing to show

    def watch(
        self, corpus: Iterable[tuple[int, Float[Tensor, "n d"]]]
    ) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
        """Pass pieces of the freshly encoded corpus on, ranking them on the way."""
        for start, vectors in corpus:
            for offset in range(0, len(vectors), _CHUNK):
                self._see(start + offset, vectors[offset : offset + _CHUNK])
            yield start, vectors

    @torch.no_grad()
    def _see(self, start: int, fresh: Float[Tensor, "n d"]) -> None:
        rows = torch.arange(start, start + len(fresh))
        view = self._miner.view(rows.to(self._device), self._step)
        if view is None:
            return
        banned = (rows[:, None] == self._banned[:, None, :]).any(dim=2)  # (q, n)
        views = {"true": fresh, "stale": view.stale}
        if view.corrected is not None and view.trusted:
            views["corrected"] = view.corrected
        for name, vectors in views.items():
            scores = (self._queries @ vectors.float().cpu().T).masked_fill(banned, -torch.inf)
            best = self._best.get(name, nothing(self._queries))
            self._best[name] = merge(best, scores, start, _DEPTH)

    def listed(self) -> list[ExampleQuery]:
        """Return the examples; a miner that searches no corrected view lists none there."""
        if not self._best:
            return []
        return [
            ExampleQuery(
                query=self._dataset.queries[query][:TEXT],
                label=ListedTarget(target, self._dataset.targets[target][:TEXT]),
                true=self._list("true", i),
                stale=self._list("stale", i),
                corrected=self._list("corrected", i) if "corrected" in self._best else [],
            )
            for i, (query, target) in enumerate(self._pairs.tolist())
        ]

    def _list(self, view: str, query: int) -> list[ListedTarget]:
        scores, rows = (part[query, : self._k].tolist() for part in self._best[view])
        ranks = {row: i for i, row in enumerate(self._best["true"].rows[query].tolist(), 1)}
        return [
            ListedTarget(row, text[:TEXT], round(score, 4), ranks.get(row))
            for row, text, score in zip(rows, self._dataset.targets.take(rows), scores, strict=True)
            if score > -torch.inf  # a known positive, where there are too few others
        ]
