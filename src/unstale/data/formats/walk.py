"""Walk over a dataset in order to write it down: targets, queries, judgements, examples."""

import csv
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import RetrievalDataset
from unstale.data.gather import Example, Target
from unstale.data.lines import count_bar, show
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_CHUNK = 4096  # texts looked up together
_BREAKS = re.compile(r"[\t\r\n]+")


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


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records as JSON lines."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_array(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records as one JSON array, a line each."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        before = "[\n"
        for record in records:
            file.write(before + json.dumps(record, ensure_ascii=False))
            before = ",\n"
        file.write("[]\n" if before == "[\n" else "\n]\n")


def write_fields(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows of fields divided by tabs; tabs and line ends inside a field become spaces."""
    changed = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            fields = [str(field) for field in row]
            flat = [_BREAKS.sub(" ", field) for field in fields]
            changed += flat != fields
            file.write("\t".join(flat) + "\n")
    if changed:
        _LOG.warning("%s: %d lines had tabs or line ends, now spaces", path.name, changed)


def write_csv(path: Path, rows: Iterable[Sequence[object]], delimiter: str = ",") -> None:
    """Write rows of fields, quoted where they must be."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(_Lines(file), delimiter=delimiter, lineterminator="\r\n").writerows(rows)


class _Lines:
    """A file for a csv writer: its lines end in a newline alone.

    The writer quotes what its own line end is made of, so only one with a carriage return quotes a
    carriage return in a text, which no reader takes otherwise.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix("\r\n") + "\n")


def check_ids(dataset: RetrievalDataset) -> None:
    """Refuse ids that no line of fields divided by tabs can hold."""
    for what, ids in (("query", dataset.query_ids), ("target", dataset.target_ids)):
        for start, some in ids.chunks(_CHUNK):
            for row, id in enumerate(some, start + 1):
                if _BREAKS.search(id):
                    rule = "this format has no place for tabs and line ends in ids"
                    raise InputError(
                        f"{what} {row} of {dataset.name} has the id {show(id)}; {rule}"
                    )


def _chunks(rows: Int[ndarray, " n"]) -> Iterator[Int[ndarray, " m"]]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]
