"""How much of the true top 10 did the miner's cache hold at the end, over the whole corpus?"""

from collections.abc import Iterable, Iterator, Mapping
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.miners.miner import Miner
from unstale.search.best import TopK, agreement, merge, nothing

_CHUNK = 4096  # targets that the miner shows at a time


@final
class CorpusOverlap:
    """Compare the top k of the miner's views with the true one, for some queries of two splits.

    It watches a corpus that is being encoded for another reason, so it costs one pass of the
    miner's view over the corpus and no encoding. Scores of one chunk are held at a time. All
    targets compete, known positives too. The queries depend on the seed alone, so that strategies
    are compared on the same ones.

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
        self._device = model.device
        self._step = step
        self._k = min(k, len(dataset.targets))
        self._sizes: dict[str, int] = {}
        self._best: dict[str, TopK] = {}  # true, stale and searched
        first = torch.zeros(1, dtype=torch.long, device=model.device)
        if miner.view(first, step) is None:
            return
        chosen = []
        for name, split in splits.items():
            rows = dataset.split(split).query_rows
            rows = rows[np.random.default_rng(seed).permutation(len(rows))[:queries]]
            self._sizes[name] = len(rows)
            chosen.append(rows)
        self._queries = embed_queries(model, dataset.queries.take(np.concatenate(chosen)))
        self._best = dict.fromkeys(("true", "stale", "searched"), nothing(self._queries))

    def watch(
        self, corpus: Iterable[tuple[int, Float[Tensor, "n d"]]]
    ) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
        """Pass pieces of the freshly encoded corpus on, ranking them on the way."""
        for start, vectors in corpus:
            if self._best:
                for offset in range(0, len(vectors), _CHUNK):
                    self._see(start + offset, vectors[offset : offset + _CHUNK])
            yield start, vectors

    @torch.no_grad()
    def _see(self, start: int, fresh: Float[Tensor, "n d"]) -> None:
        rows = torch.arange(start, start + len(fresh), device=self._device)
        view = self._miner.view(rows, self._step)
        assert view is not None
        for name, vectors in (("true", fresh), ("stale", view.stale), ("searched", view.searched)):
            scores = self._queries @ vectors.float().cpu().T
            self._best[name] = merge(self._best[name], scores, start, self._k)

    def shares(self) -> dict[str, float] | None:
        """Return the share of the true top k that each view held, `stale` and `searched`.

        The first split's have these names, the others' begin with the split's name: `eval_stale`.
        None for a miner that caches nothing.
        """
        if not self._best:
            return None
        found, end = {}, 0
        for i, (name, size) in enumerate(self._sizes.items()):
            here, end = slice(end, end + size), end + size
            true = self._best["true"].rows[here]
            for view in ("stale", "searched"):
                key = f"{name}_{view}" if i else view
                found[key] = agreement(true, self._best[view].rows[here])
        return found
