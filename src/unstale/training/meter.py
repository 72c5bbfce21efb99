"""The freshness meter: how stale is what the miner sees, and how much does correction mend?"""

from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional

from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.distributed import broadcast, exchange
from unstale.encoders.embed import embed_queries, embed_together
from unstale.miners.miner import Freshness, Miner, View
from unstale.training.estimate import choose_likely, estimate_overlaps
from unstale.training.probe import DEPTH, SAMPLE, Pool, choose

_CHUNK = 8192  # targets whose views are held at once
# Where no view holds so much, the few targets say too little: so many times more are encoded.
_POOR, _DEEPER = 0.6, 3


@final
class Reading(NamedTuple):
    """A reading, and how many targets were encoded for it."""

    freshness: Freshness
    encoded: int


class _Found(NamedTuple):
    """Targets that were encoded for some queries, and how much of the true top k views hold."""

    queries: int  # the first so many
    rows: Int[Tensor, " e"]
    fresh: Float[Tensor, "e d"]
    overlaps: list[float]  # of each view


@final
class Meter:
    """Read how fresh a miner's view of the whole corpus is, for a fixed probe of queries.

    Each reading encodes few targets: the first k of every query in the stale and in the corrected
    view, and a sample of what both rank next. From their fresh scores it estimates how much of the
    true top k over the whole corpus, or over the part that the miner covers, each view holds. If
    that is little, it reads again with more targets. The other measures are means over what was
    encoded, which is near the queries. Nothing it draws comes from the training's random numbers.

    Args:
        dataset: The corpus and the queries.
        pairs: (query row, target row) to draw queries from.
        tokens: The targets' tokens by row.
        scale: The paper's beta.
        queries: Number of queries; fewer are used if `targets` does not suffice for all.
        targets: The most targets to encode, but at least the first k of one query in each view.
            Where the views hold little, three times as many are encoded beside them.
        k: The overlap is that of the top k.
        seed: Seed of the draws.
    """

    def __init__(
        self,
        dataset: RetrievalDataset,
        pairs: Int[ndarray, "p 2"],
        tokens: TokenStore,
        *,
        scale: float,
        queries: int = 64,
        targets: int = 1536,
        k: int = 10,
        seed: int = 0,
    ) -> None:
        random = np.random.default_rng(seed)
        chosen = pairs[random.permutation(len(pairs))[:queries]]
        self.texts = dataset.queries.take(chosen[:, 0])
        self.size = len(dataset.targets)
        self.targets = targets
        self.k = min(k, self.size)
        self.scale = scale
        self.seed = seed
        self._sample = torch.from_numpy(
            random.choice(self.size, min(SAMPLE, self.size), replace=False)
        )
        self._tokens = tokens

    @torch.no_grad()
    def read(self, model: SentenceTransformer, miner: Miner, step: int) -> Reading | None:
        """Compare the miner's views of the corpus with the encoder; None if it caches nothing.

        All processes must read at the same time; each encodes its share.

        Args:
            model: The encoder as it is now.
            miner: The miner whose views to compare.
            step: Completed steps, for the record.
        """
        queries = embed_queries(model, self.texts).to(model.device)
        broadcast([queries])
        size, sample, part = self.size, self._sample.to(model.device), miner.covers()
        if part is not None:  # it is read as if it were the corpus
            size, sample = len(part), part[(sample % len(part)).unique()]
        ranked = miner.ranked(queries, min(DEPTH, size))
        if ranked is None:
            return None
        lists = [best.rows for best in (ranked.stale, ranked.corrected) if best is not None]
        pool = Pool.of(lists, sample, size)
        views = self._scores(queries, miner, pool)
        found, encoded = self._encode(model, queries, pool, views, self.targets), 0
        # One process decides, here and below: the last bit may differ.
        broadcast([held := queries.new_tensor(max(found.overlaps))])
        if len(found.rows) < len(pool.rows) and held < _POOR:
            encoded = len(found.rows)
            found = self._encode(model, queries, pool, views, _DEEPER * self.targets)
        view = miner.view(found.rows)
        assert view is not None
        compared = [
            (*_compare(queries[: found.queries], found.fresh, cached, self.scale), overlap)
            for cached, overlap in zip(_parts(view), found.overlaps, strict=True)
        ]
        encoded += len(found.rows)
        return exchange(Reading(_freshness(step, compared), encoded))[0]

    def _encode(
        self,
        model: SentenceTransformer,
        queries: Float[Tensor, "q d"],
        pool: Pool,
        views: list[Float[Tensor, "q u"]],
        most: int,
    ) -> _Found:
        """Encode so many targets of the pool at most, and estimate from them what views hold."""
        chosen = choose(views, pool.weight, self.k, most, self.seed)
        fresh = self._encoded(model, pool.rows[chosen.places])
        rest = max(0, most - len(fresh))
        likely = choose_likely(views, pool.weight, chosen, queries @ fresh.T, self.k, rest)
        broadcast([likely])
        chosen, rows = chosen.widened(likely), pool.rows[torch.cat([chosen.places, likely])]
        fresh = torch.cat([fresh, self._encoded(model, pool.rows[likely])])
        overlaps = estimate_overlaps(views, pool.weight, chosen, queries @ fresh.T, self.k)
        return _Found(chosen.queries, rows, fresh, overlaps)

    def _encoded(self, model: SentenceTransformer, rows: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        return embed_together(model, self._tokens, rows.cpu().numpy()).to(model.device)

    def _scores(
        self, queries: Float[Tensor, "q d"], miner: Miner, pool: Pool
    ) -> list[Float[Tensor, "q u"]]:
        """Score the pool's targets as the miner sees them, in each of its views."""
        chunks: list[list[Tensor]] = []
        for rows in pool.rows.split(_CHUNK):
            view = miner.view(rows)
            assert view is not None
            chunks.append([queries @ cached.T for cached in _parts(view)])
        scores = [torch.cat(part, dim=1) for part in zip(*chunks, strict=True)]
        broadcast(scores)  # the last bit may differ between machines, and all must choose alike
        return scores


def _parts(view: View) -> list[Float[Tensor, "n d"]]:
    return [view.stale] if view.corrected is None else [view.stale, view.corrected]


def _compare(
    queries: Float[Tensor, "q d"],
    fresh: Float[Tensor, "n d"],
    cached: Float[Tensor, "n d"],
    scale: float,
) -> tuple[float, float]:
    """Return the mean cosine, and the mean KL of the queries' softmaxes over these targets."""
    cosine = functional.cosine_similarity(fresh, cached).mean()
    log_p = torch.log_softmax(scale * queries @ fresh.T, dim=1)
    log_q = torch.log_softmax(scale * queries @ cached.T, dim=1)
    kl = (log_p.exp() * (log_p - log_q)).sum(dim=1).mean()
    return float(cosine), float(kl)


def _freshness(step: int, compared: list[tuple[float, float, float]]) -> Freshness:
    stale, corrected = compared[0], compared[1] if len(compared) > 1 else (None, None, None)
    return Freshness(step, *(v for pair in zip(stale, corrected, strict=True) for v in pair))  # type: ignore[arg-type]
