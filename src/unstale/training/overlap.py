"""How much of the true top 10 did the miner's cache hold at the end, over the whole corpus?"""

from collections.abc import Mapping
from typing import final

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.evaluation.nearest import Nearest
from unstale.miners.miner import Miner
from unstale.search.best import agreement


@final
class CorpusOverlap:
    """Compare the top k of the miner's views with the true one, for some queries of two splits.

    The true one is that of a corpus that is being encoded for another reason, which `true` is to
    watch; the miner ranks its views by a scan. So it costs no encoding. All targets compete, known
    positives too. The queries depend on the seed alone, so that strategies are compared on the same
    ones.

    Args:
        model: The encoder as it is now.
        miner: Whose views to compare; one that caches nothing has no overlap.
        dataset: The queries.
        splits: By the name that a result gets, the split to draw queries of.
        step: Completed steps.
        queries: How many queries of each split.
        k: The overlap is that of the top k.
        seed: Random seed of the draw.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        miner: Miner,
        dataset: RetrievalDataset,
        splits: Mapping[str, str],
        *,
        step: int,
        queries: int = 256,
        k: int = 10,
        seed: int = 0,
    ) -> None:
        self._miner = miner
        self._step = step
        self._k = min(k, len(dataset.targets))
        self._sizes: dict[str, int] = {}
        self._first = torch.zeros(1, dtype=torch.long, device=model.device)
        self.true: Nearest | None = None  # is to see the corpus; None for a miner without a cache
        if miner.view(self._first, step) is None:
            return
        chosen = []
        for name, split in splits.items():
            rows = dataset.split(split).query_rows
            rows = rows[np.random.default_rng(seed).permutation(len(rows))[:queries]]
            self._sizes[name] = len(rows)
            chosen.append(rows)
        texts = dataset.queries.take(np.concatenate(chosen))
        self._queries = embed_queries(model, texts).to(model.device)
        self.true = Nearest(self._queries, self._k)

    def shares(self) -> dict[str, float] | None:
        """Return the share of the true top k that each view held, `stale` and `searched`.

        The first split's have these names, the others' begin with the split's name: `eval_stale`.
        None for a miner that caches nothing.
        """
        if self.true is None:
            return None
        ranked = self._miner.ranked(self._queries, self._k, self._step)
        view = self._miner.view(self._first, self._step)
        assert ranked is not None
        assert view is not None
        searched = ranked.corrected if view.trusted else None
        views = {"stale": ranked.stale, "searched": ranked.stale if searched is None else searched}
        true, found, end = self.true.best().rows, {}, 0
        for i, (name, size) in enumerate(self._sizes.items()):
            here, end = slice(end, end + size), end + size
            for view_name, rows in views.items():
                key = f"{name}_{view_name}" if i else view_name
                found[key] = agreement(true[here], rows[here].cpu())
        return found
