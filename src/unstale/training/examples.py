"""What did mining miss? Some queries, their true nearest targets, and what the caches offer."""

from collections.abc import Iterator

import numpy as np

from unstale.data.answers import AnswerFinder
from unstale.data.dataset import Positives, RetrievalDataset
from unstale.evaluation.evaluator import Evaluator
from unstale.results import ExampleQuery, FoundQuery, ListedTarget
from unstale.search.best import TopK
from unstale.training.overlap import LastLook

TEXT = 300  # characters of a text to keep


def nearest_examples(
    look: LastLook,
    dataset: RetrievalDataset,
    positives: Positives,
    *,
    queries: int = 5,
    k: int = 5,
) -> list[ExampleQuery]:
    """List the targets nearest to some training queries: truly, and as the miner's cache has them.

    Known positives are in no list. A miner that searches no corrected view lists none there.

    Args:
        positives: The rows that are never a query's negatives.
        k: How many targets to list for each, as far as they were ranked.
    """
    rows, ranked = look.rows[: min(queries, look.trained)], look.ranked
    corrected = ranked.searched if ranked.searched is not ranked.stale else None
    pairs = dataset.split("train").pairs
    examples = []
    for i, (query, banned) in enumerate(zip(rows.tolist(), positives(rows), strict=True)):
        true, *cached = (
            [pair for pair in _best(view, i) if pair[1] not in banned]
            for view in (look.true, ranked.stale, corrected)
        )
        ranks = {row: rank for rank, (_, row) in enumerate(true, 1)}
        lists = [
            [
                ListedTarget(r, dataset.targets[r][:TEXT], round(s, 4), ranks.get(r))
                for s, r in best[:k]
            ]
            for best in (true, *cached)
        ]
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


def _best(found: TopK | None, place: int) -> list[tuple[float, int]]:
    if found is None:
        return []
    return list(zip(found.scores[place].tolist(), found.rows[place].tolist(), strict=True))
