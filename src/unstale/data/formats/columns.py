"""Rows with columns, as sentence-transformers takes them: which column plays which role.

A row has a query, a positive, and maybe negatives: `negative`, or `negative_1`, `negative_2`, ...
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, final

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
HOW = "PATH:{}=COLUMN"  # how to choose a column, on the command line
_REQUIRED = ("query", "positive")
_EXTRA = ("query_id", "answers")  # taken if they are what they seem to be
_BATCH = 4096  # rows to a record batch
_SHAPES = 1024  # sets of keys remembered: records may have keys of their own


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
    names: Sequence[str],
    chosen: Mapping[str, str],
    where: str,
    how: str = HOW,
    *,
    partial: bool = False,
) -> Columns:
    """Give columns their roles: as chosen, otherwise by their names; `how` is how to choose.

    If `partial`, a column that was chosen may be missing, unless every row needs it.
    """
    if unknown := sorted(set(chosen) - set(ROLES)):
        raise InputError(f"columns can be {', '.join(ROLES)}, not {', '.join(unknown)}")
    found = {role: _find(role, names, chosen) for role in ROLES}
    for role, columns in found.items():
        if not columns and (role in _REQUIRED or (role in chosen and not partial)):
            raise _no_column(role, names, chosen, where, how)
    query, positive, query_id, answers = (
        next(iter(found[role]), None) for role in ("query", "positive", "query_id", "answers")
    )
    assert query is not None
    assert positive is not None
    return Columns(query, positive, found["negative"], query_id, answers)


def _find(role: str, names: Sequence[str], chosen: Mapping[str, str]) -> list[str]:
    wanted = (chosen[role],) if role in chosen else ROLES[role]
    found = [name for name in wanted if name in names]
    if role == "negative":
        numbered = re.compile(rf"({'|'.join(map(re.escape, wanted))})_\d+")
        found += [name for name in names if numbered.fullmatch(name)]
    return found


def _no_column(
    role: str, names: Iterable[str], chosen: Mapping[str, str], where: str, how: str
) -> InputError:
    wanted = (chosen[role],) if role in chosen else ROLES[role]
    rule = f"no column {' or '.join(wanted)}; say which has the {role} by {how.format(role)}"
    return InputError(f"{where}: {rule}; there are {show(list(names))}")


@final
class RowReader:
    """Make examples of the rows of a table.

    Columns `query_id` and `answers` that nobody chose, and that begin with something else than ids
    and answers, are left out.

    Args:
        name: Of the table.
        chosen: Which column plays which role, where its name does not say so.
        how: How to choose.
        loose: Each row has columns of its own, as JSON records do.
    """

    def __init__(
        self, name: str, chosen: Mapping[str, str], how: str = HOW, *, loose: bool = False
    ) -> None:
        self._name, self._chosen, self._how, self._loose = name, chosen, how, loose
        self._shapes: dict[tuple[str, ...], Columns] = {}
        self._missing = set(chosen)  # roles whose column no row had yet
        self._unsure = set(_EXTRA) - set(chosen)
        self._left_out: set[str] = set()

    def read(self, rows: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Example]]:
        """Yield `(where, example)` of rows `(where, row)`."""
        row: dict[str, Any] = {}
        for where, row in rows:
            columns = self._columns(tuple(row), where)
            extra = self._unsure and (columns.query_id or columns.answers)
            if extra and self._doubts(columns, row, where):
                columns = self._columns(tuple(row), where)
            yield where, parse_row(columns, row, where)
        for role in self._missing if row else ():
            raise _no_column(role, row, self._chosen, self._name, self._how)

    def without(self, columns: Columns) -> Columns:
        """Return columns without those that were left out."""
        nothing: dict[str, Any] = dict.fromkeys(self._left_out)
        return columns._replace(**nothing)

    def _columns(self, names: tuple[str, ...], where: str) -> Columns:
        if names not in self._shapes:
            found = assign(names, self._chosen, where, self._how, partial=self._loose)
            self._missing -= {r for r in self._missing if _find(r, names, self._chosen)}
            if len(self._shapes) == _SHAPES:
                self._shapes.clear()
            self._shapes[names] = self.without(found)
        return self._shapes[names]

    def _doubts(self, columns: Columns, row: dict[str, Any], where: str) -> bool:
        """Leave out what the first value shows to be something else; tell whether there is such."""
        before = len(self._left_out)
        for role, name in (("query_id", columns.query_id), ("answers", columns.answers)):
            if role not in self._unsure or name is None or row[name] in (None, "", []):
                continue
            self._unsure.remove(role)
            try:
                if role == "query_id":
                    identifier(row, name, where)
                else:
                    strings(row[name], name, where)
            except InputError as flaw:
                _LOG.warning("%s; the column %r is left out", flaw, name)
                self._left_out.add(role)
                self._shapes.clear()
        return len(self._left_out) > before


def parse_row(columns: Columns, row: dict[str, Any], where: str) -> Example:
    """Make an example of a row; an empty cell, or one of spaces, is no negative."""
    positives = strings(row.get(columns.positive), columns.positive, where)
    if not positives or not all(map(str.strip, positives)):
        raise InputError(f"{where}: the column {columns.positive!r} is empty")
    given = (t for name in columns.negatives for t in strings(row.get(name), name, where))
    negatives = [text for text in given if text.strip()]
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
