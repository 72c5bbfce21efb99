"""What did mining miss? Some queries, their true nearest targets, and what the caches offer."""

from collections.abc import Iterable, Iterator
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.dataset import Positives, RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.errors import InputError
from unstale.miners.miner import Miner, Queries
from unstale.miners.negatives import Negatives
from unstale.results import ExampleQuery, ListedTarget
from unstale.search.best import TopK, merge, nothing

TEXT = 300  # characters of a text to keep
_CHUNK = 4096


@final
class MinedExamples:
    """Compare the targets that the miner's caches put nearest with those that are.

    It watches a corpus that is being encoded for another reason, so it costs no encoding. Known
    positives are in no list and take no place in the true ranking. The queries depend on the seed
    alone, so that strategies can be compared on the same ones.

    Args:
        model: The encoder as it is now.
        negatives: Whose view of the corpus to show; a miner that caches nothing has no examples.
        dataset: The texts.
        tokens: The targets' tokens by row.
        positives: The rows that are never a query's negatives.
        split: Where the queries come from.
        queries: How many.
        k: How many targets to list for each.
        seed: Chooses the queries.
        step: Completed steps, which key what the miner draws.
        scale: The paper's beta, by which a miner that samples weighs its noise.
    """

    @torch.no_grad()
    def __init__(
        self,
        model: SentenceTransformer,
        negatives: Negatives,
        dataset: RetrievalDataset,
        tokens: TokenStore,
        positives: Positives,
        *,
        split: str = "train",
        queries: int = 5,
        k: int = 5,
        seed: int = 0,
        step: int = 0,
        scale: float = 1.0,
    ) -> None:
        self._dataset = dataset
        self._pairs = _choose(dataset, split, queries, seed)
        self._banned = torch.from_numpy(positives(self._pairs[:, 0]))  # (q, p)
        self._k = min(k, len(dataset.targets) - self._banned.shape[1])
        self._mined: dict[str, TopK] = {}
        miner, one = negatives.miner, torch.zeros(1, dtype=torch.long, device=model.device)
        if miner.view(one, step) is None or self._k < 1 or not len(self._pairs):
            return
        self._queries = embed_queries(model, dataset.queries.take(self._pairs[:, 0]))  # (q, d)
        asked = Queries(
            self._queries.to(model.device),
            torch.from_numpy(self._pairs[:, 0]).to(model.device),
            self._banned.to(model.device),
            step,
            scale,
        )
        targets = len(dataset.targets)
        self._mined["stale"] = _search_stale(
            miner, self._queries, self._banned, targets, self._k, model.device
        )
        if (corrected := _mine(negatives, asked, self._k)) is not None:
            self._mined["corrected"] = corrected
        self._rows = torch.cat([top.rows for top in self._mined.values()], dim=1)  # (q, m)
        fresh = embed_targets(model, tokens, self._rows.flatten().clamp(min=0).numpy())
        fresh = fresh.view(*self._rows.shape, -1)
        self._scores = (fresh @ self._queries[:, :, None])[:, :, 0]
        self._best, self._nearer = nothing(self._queries), torch.zeros_like(self._rows)

    def watch(
        self, corpus: Iterable[tuple[int, Float[Tensor, "n d"]]]
    ) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
        """Pass pieces of the freshly encoded corpus on, ranking them on the way."""
        for start, vectors in corpus:
            if self._mined:
                self._see(start, vectors)
            yield start, vectors

    def _see(self, start: int, vectors: Float[Tensor, "n d"]) -> None:
        """Update the true top-k, and how many targets are truly nearer than each mined one."""
        chunk = _without(self._queries @ vectors.T, self._banned, start)
        self._best = merge(self._best, chunk, start, self._k)
        places = torch.arange(start, start + len(vectors))
        # A target is not nearer than itself, though padding may have moved its last digits.
        other = places != self._rows[:, :, None]
        self._nearer += ((chunk[:, None, :] > self._scores[:, :, None]) & other).sum(dim=2)

    def listed(self) -> list[ExampleQuery]:
        """Return the examples; a miner that searched no corrected view lists none there."""
        if not self._mined:
            return []
        counts = [top.rows.shape[1] for top in self._mined.values()]
        ranks = dict(zip(self._mined, (self._nearer + 1).split(counts, dim=1), strict=True))
        found = []
        for i, (query, target) in enumerate(self._pairs.tolist()):
            views = {
                view: _listed(self._dataset, t, i, ranks[view]) for view, t in self._mined.items()
            }
            found.append(
                ExampleQuery(
                    query=self._dataset.queries[query][:TEXT],
                    label=ListedTarget(target, self._dataset.targets[target][:TEXT]),
                    true=_listed(self._dataset, self._best, i),
                    stale=views["stale"],
                    corrected=views.get("corrected", []),
                )
            )
        return found


def _choose(dataset: RetrievalDataset, split: str, count: int, seed: int) -> Int[ndarray, "q 2"]:
    """Draw queries of a split, each with the first of its labels."""
    pairs = dataset.split(split).pairs
    _, first = np.unique(pairs[:, 0], return_index=True)
    order = np.random.default_rng(seed).permutation(len(first))[:count]
    return pairs[first[order]].astype(np.int64)


def _search_stale(
    miner: Miner,
    queries: Float[Tensor, "q d"],
    banned: Int[Tensor, "q p"],
    targets: int,
    k: int,
    device: torch.device,
) -> TopK:
    best = nothing(queries)
    for rows in torch.arange(targets).split(_CHUNK):
        view = miner.view(rows.to(device), 0)
        assert view is not None
        scores = queries @ view.stale.float().cpu().T
        best = merge(best, _without(scores, banned, int(rows[0])), int(rows[0]), k)
    return best


def _mine(negatives: Negatives, queries: Queries, k: int) -> TopK | None:
    """Let the miner choose, if it corrects; uniform and given negatives are left out.

    One that distrusts its corrector searches the stale view, which is listed as such already.
    """
    miner = negatives.miner
    view = miner.view(torch.zeros_like(queries.rows[:1]), queries.step)
    if view is None or view.corrected is None or not view.trusted:
        return None
    try:
        rows, _ = negatives.mine_hard(queries, k)
    except InputError:  # it searches a subset with fewer than k: no reason to fail a finished run
        return None
    seen = miner.view(rows.flatten().clamp(min=0), queries.step)
    assert seen is not None
    assert seen.corrected is not None
    vectors = seen.corrected.view(*rows.shape, -1).float()  # (q, k, d)
    return TopK((vectors @ queries.vectors[:, :, None])[:, :, 0].cpu(), rows.cpu())


def _without(
    scores: Float[Tensor, "q n"], banned: Int[Tensor, "q p"], start: int
) -> Float[Tensor, "q n"]:
    """Put known positives, of a chunk whose first row is `start`, behind everything."""
    places = torch.arange(start, start + scores.shape[1])
    hit = (places[None, :, None] == banned[:, None, :]).any(dim=2)
    return scores.masked_fill(hit, -torch.inf)


def _listed(
    dataset: RetrievalDataset, top: TopK, query: int, ranks: Int[Tensor, "q k"] | None = None
) -> list[ListedTarget]:
    found = top.rows[query] >= 0  # filters may leave fewer
    rows = top.rows[query][found].tolist()
    places = [None] * len(rows) if ranks is None else ranks[query][found].tolist()
    texts, scores = dataset.targets.take(rows), top.scores[query][found].tolist()
    return [
        ListedTarget(row, text[:TEXT], round(score, 4), place)
        for row, text, score, place in zip(rows, texts, scores, places, strict=True)
    ]
