"""Where in a ranking stands the first target that holds an answer? DPR's measure of retrieval."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from unstale.data.answers import AnswerFinder
from unstale.data.dataset import RetrievalDataset
from unstale.evaluation.metrics import CUTOFFS
from unstale.search.best import TopK


def first_answers(
    dataset: RetrievalDataset, query_rows: Int[ndarray, " q"], found: TopK
) -> Float[ndarray, " q"]:
    """Return the place of the first target with an answer in its text, infinity if there is none.

    As in DPR, a title does not count.
    """
    assert dataset.answers is not None
    first = np.full(len(query_rows), np.inf)
    for i, (query, rows) in enumerate(zip(query_rows.tolist(), found.rows.tolist(), strict=True)):
        holds = AnswerFinder(dataset.answers[query])
        for start in range(0, len(rows), _PIECE):
            bodies = dataset.bodies(rows[start : start + _PIECE])
            place = next((start + j for j, body in enumerate(bodies) if holds(body)), None)
            if place is not None:
                first[i] = place
                break
    return first


def answer_recall(first: Float[ndarray, " q"]) -> dict[str, Float[ndarray, " q"]]:
    """Return `answer_recall@k` of each query: 1 if one of the first k targets has an answer.

    Example:
        >>> answer_recall(np.array([0.0, 7.0, np.inf]))["answer_recall@10"].tolist()
        [1.0, 1.0, 0.0]
    """
    return {f"answer_recall@{k}": (first < k).astype(float) for k in CUTOFFS}


def has_answers(dataset: RetrievalDataset, query_rows: Int[ndarray, " q"]) -> bool:
    """Tell whether each of some queries has an answer."""
    known = dataset.answers
    return known is not None and all(any(known[query]) for query in query_rows.tolist())


_PIECE = 10  # targets read at a time: most questions that are answered at all need no more
