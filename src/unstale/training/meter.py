"""The freshness meter: how stale is what the miner sees, and how much does correction mend?"""

from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional

from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.miners.miner import Freshness, Miner


@final
class Meter:
    """Read the freshness of a fixed probe: some queries, their positives and other targets.

    Args:
        dataset: The corpus and the queries.
        pairs: (query row, target row) to draw from; -1 for a query without a known positive.
        tokens: The targets' tokens by row.
        scale: The paper's beta.
        queries: How many queries.
        targets: How many targets.
        k: The overlap is that of the top k.
        seed: Of the draw.
    """

    def __init__(
        self,
        dataset: RetrievalDataset,
        pairs: Int[ndarray, "p 2"],
        tokens: TokenStore,
        *,
        scale: float,
        queries: int = 64,
        targets: int = 512,
        k: int = 10,
        seed: int = 0,
    ) -> None:
        random = np.random.default_rng(seed)
        chosen = pairs[random.permutation(len(pairs))[:queries]]
        others = random.permutation(len(dataset.targets))
        known = chosen[chosen[:, 1] >= 0, 1]
        rows = np.concatenate([known, others])
        first = np.sort(np.unique(rows, return_index=True)[1])  # distinct, positives first
        self.rows: Int[ndarray, " n"] = rows[first][: max(targets, len(known))]
        self.texts = dataset.queries.take(chosen[:, 0])
        self.k = min(k, len(self.rows))
        self.scale = scale
        self._tokens = tokens

    @torch.no_grad()
    def read(
        self,
        model: SentenceTransformer,
        miner: Miner,
        step: int,
        mined_at: int,
        scale: float | None = None,
    ) -> Freshness | None:
        """Compare the miner's view of the probe with the encoder's; None if it caches nothing.

        Args:
            model: The encoder as it is now.
            miner: Whose view to compare.
            step: Completed steps, for the record.
            mined_at: The step at which the miner last chose targets.
            scale: The paper's beta now, if it is learnt.
        """
        view = miner.view(torch.from_numpy(self.rows).to(model.device), mined_at)
        if view is None:
            return None
        queries = embed_queries(model, self.texts)
        true = embed_targets(model, self._tokens, self.rows)
        scale = scale or self.scale
        stale = self._compare(queries, true, view.stale.cpu(), scale)
        corrected: tuple[float | None, ...] = (None, None, None)
        if view.corrected is not None:
            corrected = self._compare(queries, true, view.corrected.cpu(), scale)
        values = [v for pair in zip(stale, corrected, strict=True) for v in pair]
        return Freshness(step, *values)  # type: ignore[arg-type]

    def _compare(
        self,
        queries: Float[Tensor, "q d"],
        true: Float[Tensor, "n d"],
        cached: Float[Tensor, "n d"],
        scale: float,
    ) -> tuple[float, float, float]:
        cosine = functional.cosine_similarity(true, cached).mean()
        scores, guess = queries @ true.T, queries @ cached.T
        log_p = torch.log_softmax(scale * scores, dim=1)
        log_q = torch.log_softmax(scale * guess, dim=1)
        kl = (log_p.exp() * (log_p - log_q)).sum(dim=1).mean()
        best, found = scores.topk(self.k).indices, guess.topk(self.k).indices
        overlap = (best[:, :, None] == found[:, None, :]).any(dim=2).float().mean()
        return float(cosine), float(kl), float(overlap)
