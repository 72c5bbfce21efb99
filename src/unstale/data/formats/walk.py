"""Walk over a dataset in order to write it down: targets, queries, judgements, examples."""

import logging
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import RetrievalDataset
from unstale.data.gather import Example, Target
from unstale.data.lines import BREAKS, count_bar, show
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_CHUNK = 4096  # texts looked up together


class Query(NamedTuple):
    """A query as it is written."""

    id: str
    text: str
    answers: list[str]


def targets(dataset: RetrievalDataset) -> Iterator[Target]:
    """Yield every target."""
    with count_bar(len(dataset.targets), "writing targets", "target") as bar:
        for rows in _chunks(np.arange(len(dataset.targets))):
            yield from _targets(dataset, rows)
            bar.update(len(rows))


def _targets(dataset: RetrievalDataset, rows: Int[ndarray, " n"]) -> Iterator[Target]:
    """Yield some targets, titles and texts apart."""
    ends = dataset.title_ends[rows].tolist() if dataset.title_ends is not None else [0] * len(rows)
    texts, ids = dataset.targets.take(rows), dataset.target_ids.take(rows)
    for id, text, end in zip(ids, texts, ends, strict=True):
        yield Target(id, text[:end], text[end + 1 :] if end else text)


def queries(dataset: RetrievalDataset, rows: Int[ndarray, " n"] | None = None) -> Iterator[Query]:
    """Yield some queries, or all."""
    rows = np.arange(len(dataset.queries)) if rows is None else rows
    for some in _chunks(rows):
        ids, texts = dataset.query_ids.take(some), dataset.queries.take(some)
        for row, id, text in zip(some.tolist(), ids, texts, strict=True):
            yield Query(id, text, list(dataset.answers[row]) if dataset.answers else [])


def judgements(dataset: RetrievalDataset, split: str) -> Iterator[tuple[str, str, int]]:
    """Yield the judgements of a split as (query id, target id, grade)."""
    qrels = dataset.split(split)
    for some in _chunks(np.arange(len(qrels.query))):
        yield from zip(
            dataset.query_ids.take(qrels.query[some]),
            dataset.target_ids.take(qrels.target[some]),
            qrels.grade[some].tolist(),
            strict=True,
        )


def examples(dataset: RetrievalDataset, split: str) -> Iterator[Example]:
    """Yield the queries of a split, each with all that is judged for it."""
    qrels = dataset.split(split)
    order = np.argsort(qrels.query, kind="stable")
    rows, starts = np.unique(qrels.query[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    judged = (t for some in _chunks(order) for t in _targets(dataset, qrels.target[some]))
    with count_bar(len(rows), f"writing {split}", "query") as bar:
        for query, start, end in zip(queries(dataset, rows), starts, ends, strict=True):
            sides: tuple[list[Target], list[Target]] = ([], [])
            for grade in qrels.grade[order[start:end]]:
                sides[0 if grade > 0 else 1].append(next(judged))
            yield Example(query.id, query.text, *sides, query.answers)
            bar.update()


def answered(dataset: RetrievalDataset, split: str) -> Iterator[Example]:
    """Yield the queries of a split that have a positive; say how many have none."""
    without = 0
    for example in examples(dataset, split):
        if example.positives:
            yield example
        else:
            without += 1
    if without:
        what = "have no positive and are left out"
        _LOG.warning("%s: %d queries of %s %s", dataset.name, without, split, what)


def check_ids(dataset: RetrievalDataset) -> None:
    """Refuse ids that no line of fields divided by tabs can hold."""
    for what, ids in (("query", dataset.query_ids), ("target", dataset.target_ids)):
        for row, id in enumerate(ids, 1):
            if BREAKS.search(id):
                rule = "this format has no place for tabs and line ends in ids"
                raise InputError(f"{what} {row} of {dataset.name} has the id {show(id)}; {rule}")


def _chunks(rows: Int[ndarray, " n"]) -> Iterator[Int[ndarray, " m"]]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]
