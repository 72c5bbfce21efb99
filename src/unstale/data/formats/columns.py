"""Rows with columns, as sentence-transformers takes them: which column plays which role.

A row has a query, a positive, and maybe negatives: `negative`, or `negative_1`, `negative_2`, ...
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.format import TWINS
from unstale.data.formats.walk import answered, targets
from unstale.data.gather import Example, Target
from unstale.data.lines import identifier, show, string, strings
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)

# role: the names of columns that play it if none is named.
ROLES: dict[str, tuple[str, ...]] = {
    "query": ("query", "anchor", "question"),
    "positive": ("positive", "answer", "passage", "document"),
    "negative": ("negative", "negatives"),
    "query_id": ("query_id",),
    "answers": ("answers",),
}
LACKS = ("query ids", "answers", "grades", TWINS)
_REQUIRED = ("query", "positive")
_BATCH = 4096  # rows to a record batch


class Columns(NamedTuple):
    """The columns of each role; only negatives may have several."""

    query: str
    positive: str
    negatives: list[str]
    query_id: str | None
    answers: str | None

    @property
    def names(self) -> list[str]:
        """List the columns that are read."""
        others = (self.query_id, self.answers)
        return [*self.texts, *(name for name in others if name)]

    @property
    def texts(self) -> list[str]:
        """List the columns of texts to encode, the query first."""
        return [self.query, self.positive, *self.negatives]


def assign(
    names: Sequence[str], chosen: Mapping[str, str], where: str, how: str = "PATH:{}=COLUMN"
) -> Columns:
    """Give columns their roles: as chosen, otherwise by their names; `how` is how to choose."""
    if unknown := sorted(set(chosen) - set(ROLES)):
        raise InputError(f"columns can be {', '.join(ROLES)}, not {', '.join(unknown)}")
    found = {role: _find(role, names, chosen, where, how) for role in ROLES}
    query, positive, query_id, answers = (
        next(iter(found[role]), None) for role in ("query", "positive", "query_id", "answers")
    )
    assert query is not None
    assert positive is not None
    return Columns(query, positive, found["negative"], query_id, answers)


def _find(
    role: str, names: Sequence[str], chosen: Mapping[str, str], where: str, how: str
) -> list[str]:
    wanted = (chosen[role],) if role in chosen else ROLES[role]
    found = [name for name in wanted if name in names]
    if role == "negative":
        numbered = re.compile(rf"({'|'.join(map(re.escape, wanted))})_\d+")
        found += [name for name in names if numbered.fullmatch(name)]
    if not found and (role in chosen or role in _REQUIRED):
        rule = f"no column {' or '.join(wanted)}; say which has the {role} by {how.format(role)}"
        raise InputError(f"{where}: {rule}; there are {show(list(names))}")
    return found


def parse_row(columns: Columns, row: dict[str, Any], where: str) -> Example:
    """Make an example of a row; an empty cell is no negative."""
    positives = strings(row.get(columns.positive), columns.positive, where)
    if not positives or not all(positives):
        raise InputError(f"{where}: the column {columns.positive!r} is empty")
    negatives = [t for name in columns.negatives for t in strings(row.get(name), name, where) if t]
    return Example(
        identifier(row, columns.query_id, where) if columns.query_id else None,
        string(row, columns.query, where),
        [Target(None, "", text) for text in positives],
        [Target(None, "", text) for text in negatives],
        strings(row.get(columns.answers), columns.answers, where) if columns.answers else (),
    )


def header(dataset: RetrievalDataset, split: str) -> list[str]:
    """Return the columns to write: as many negatives as the query with the most has."""
    counts = np.bincount(dataset.split(split).negatives[:, 0])
    return ["query", "positive", *(f"negative_{i + 1}" for i in range(counts.max(initial=0)))]


def rows(dataset: RetrievalDataset, split: str) -> Iterator[list[str | None]]:
    """Yield a row for each pair of a query and a positive, with all the query's negatives."""
    width, short = len(header(dataset, split)), 0
    for example in answered(dataset, split):
        negatives = [target.joined for target in example.negatives]
        empty = [None] * (width - 2 - len(negatives))
        for target in example.positives:
            short += bool(empty)
            yield [example.query, target.joined, *negatives, *empty]
    if short:
        what = f"fewer than {width - 2} negatives: the rest of their cells are empty"
        _LOG.warning("%s: %d rows of %s have %s", dataset.name, short, split, what)


CORPUS = ["id", "title", "text"]


def corpus_rows(dataset: RetrievalDataset) -> Iterator[list[str | None]]:
    """Yield a row for each target."""
    return ([target.id, target.title, target.text] for target in targets(dataset))


def batches(names: list[str], table: Iterable[list[str | None]]) -> Iterator[pa.RecordBatch]:
    """Pack rows into Arrow record batches."""
    table = iter(table)
    while some := list(islice(table, _BATCH)):
        columns = [pa.array(column, pa.large_string()) for column in zip(*some, strict=True)]
        yield pa.record_batch(columns, schema(names))


def plain_rows(
    tables: Iterable[pa.RecordBatch | pa.Table], where: str
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of Arrow pieces; a damaged one is refused before its offsets are followed."""
    pieces = iter(tables)
    while True:
        try:
            if (piece := next(pieces, None)) is None:
                return
            piece.validate(full=True)
            found = piece.to_pylist()
        except (pa.ArrowException, OSError, ValueError) as error:  # a torn page, bad UTF-8
            raise InputError(f"{where} is damaged ({error})") from None
        yield found


def schema(names: list[str]) -> pa.Schema:
    """Return columns of texts."""
    return pa.schema([(name, pa.large_string()) for name in names])
