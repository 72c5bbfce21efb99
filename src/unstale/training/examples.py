"""What did mining miss? Some queries, their true nearest targets, and what the caches offer."""

from collections.abc import Iterator

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from unstale.data.answers import AnswerFinder
from unstale.data.dataset import Positives
from unstale.encoders.embed import embed_queries
from unstale.evaluation.evaluator import Evaluator
from unstale.miners.miner import Miner
from unstale.results import ExampleQuery, FoundQuery, ListedTarget
from unstale.search.best import TopK

TEXT = 300  # characters of a text to keep


def nearest_examples(
    model: SentenceTransformer,
    miner: Miner,
    evaluator: Evaluator,
    positives: Positives,
    *,
    queries: int = 5,
    k: int = 5,
    seed: int = 0,
) -> list[ExampleQuery]:
    """List the targets nearest to some training queries: truly, and as the miner's cache has them.

    The true ranking was just evaluated. Known positives are in no list. The queries depend on the
    seed alone, so that strategies can be compared on the same ones. A miner that caches nothing has
    no examples, and one that searches no corrected view lists none there.

    Args:
        positives: The rows that are never a query's negatives.
        k: How many targets to list for each.
    """
    dataset, (rows, found) = evaluator.dataset, evaluator.trained
    chosen = np.random.default_rng(seed).permutation(len(rows))[:queries]
    vectors = embed_queries(model, dataset.queries.take(rows[chosen])).to(model.device)
    banned = torch.from_numpy(positives(rows[chosen]))  # (q, p)
    k = min(k, len(dataset.targets) - int((banned >= 0).sum(dim=1).max()))
    ranked = miner.ranked(vectors, k, banned.to(model.device))
    if ranked is None:
        return []
    pairs = dataset.split("train").pairs
    examples = []
    for i, place in enumerate(chosen.tolist()):
        true = [pair for pair in _best(found, place) if pair[1] not in banned[i]]
        ranks = {row: rank for rank, (_, row) in enumerate(true, 1)}
        corrected = _best(ranked.searched, i) if ranked.searched is not ranked.stale else []
        lists = [
            [ListedTarget(r, dataset.targets[r][:TEXT], round(s, 4), ranks.get(r)) for s, r in best]
            for best in (true[:k], _best(ranked.stale, i), corrected)
        ]
        query = int(rows[place])
        label = int(pairs[np.argmax(pairs[:, 0] == query), 1])  # the first one
        target = ListedTarget(label, dataset.targets[label][:TEXT])
        examples.append(ExampleQuery(dataset.queries[query][:TEXT], target, *lists))
    return examples


def found_examples(evaluator: Evaluator, *, queries: int = 3, seed: int = 0) -> list[FoundQuery]:
    """Show what the model that was just evaluated finds for some queries of the first split."""
    dataset, (rows, found) = evaluator.dataset, evaluator.evaluated
    qrels = dataset.qrels.get(evaluator.split)
    examples = []
    for place in np.random.default_rng(seed).permutation(len(rows))[:queries].tolist():
        query, best = int(rows[place]), found.rows[place].tolist()
        holds: Iterator[bool]
        if qrels is None:  # then a target with an answer will do
            assert dataset.answers is not None
            holds = map(AnswerFinder(dataset.answers[query]), dataset.bodies(best))
        else:
            labels = set(qrels.pairs[qrels.pairs[:, 0] == query, 1].tolist())
            holds = (row in labels for row in best)
        rank = next((rank for rank, good in enumerate(holds, 1) if good), None)
        first = dataset.targets[best[0]][:TEXT]
        examples.append(FoundQuery(dataset.queries[query][:TEXT], first, rank))
    return examples


def _best(found: TopK, place: int) -> list[tuple[float, int]]:
    return list(zip(found.scores[place].tolist(), found.rows[place].tolist(), strict=True))
