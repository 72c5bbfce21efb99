"""Rows with columns, as sentence-transformers takes them: which column plays which role.

A row has a query, a positive, and maybe negatives: `negative`, or `negative_1`, `negative_2`, ...
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.arrow import parts
from unstale.data.formats.format import TWINS
from unstale.data.formats.reading import BLANK, REPEATED, Reading
from unstale.data.formats.walk import answered, targets
from unstale.data.gather import Example, Target, parse_target
from unstale.data.lines import Record, count_bar, identifier, show, string, strings
from unstale.errors import InputError

Rows = Iterator[tuple[str, Record]]  # where a row stands, and the row
_LOG = logging.getLogger(__name__)

# role: the names of columns that play it if none is named; case, spaces, _ and - do not matter.
ROLES: dict[str, tuple[str, ...]] = {
    "query": ("query", "anchor", "question", "search query", "prompt", "sentence1"),
    "positive": (
        "positive", "answer", "passage", "document", "target", "context", "response", "sentence2",
    ),
    "negative": ("negative", "negatives"),
    "query_id": ("query_id",),
    "answers": ("answers",),
}  # fmt: skip
# Names that play a role only in a file that was named itself: in a folder they may be a corpus.
ALONE: dict[str, tuple[str, ...]] = {
    "query": ("title", "headline", "subject"),
    "positive": ("text", "body", "content", "description", "abstract"),
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


@final
class RowReader:
    """Make examples of the rows of the table `name`; `how` is how to choose columns.

    Columns have their roles as chosen, otherwise by their names. Columns `query_id` and `answers`
    that nobody chose, and that begin with something else than ids and answers, are left out. Rows
    without an example are skipped, and counted in `reading`.

    If `loose`, each row has columns of its own, as JSON records do: a column that was chosen may be
    missing in some, unless every row needs it.
    """

    def __init__(
        self,
        name: str,
        chosen: Mapping[str, str],
        how: str = HOW,
        *,
        loose: bool = False,
        alone: bool = True,
        reading: Reading | None = None,
    ) -> None:
        if unknown := sorted(set(chosen) - set(ROLES)):
            raise InputError(f"columns can be {', '.join(ROLES)}, not {', '.join(unknown)}")
        self._name, self._how, self._loose = name, how, loose
        more = ALONE if alone else {}
        known = {role: names + more.get(role, ()) for role, names in ROLES.items()}
        self._chosen = chosen
        self._wanted = known | {role: (column,) for role, column in chosen.items()}
        self._reading = reading or Reading()
        self._needed = {*_REQUIRED, *(() if loose else chosen)}
        self._missing = set(chosen)  # roles whose column no row had yet
        self._unsure = set(_EXTRA) - set(chosen)
        self._left_out: dict[str, Any] = {}
        self._shapes: dict[tuple[str, ...], Columns] = {}

    def assign(self, names: Collection[str], where: str | None = None) -> Columns:
        """Give columns their roles; errors name the row or the table."""
        found = {}
        for role, wanted in self._wanted.items():
            spelt = _exact if role in self._chosen else plain
            by_name = {spelt(name): name for name in reversed(list(names))}
            found[role] = [by_name[key] for key in map(spelt, wanted) if key in by_name]
            if role == "negative":
                some = "|".join(re.escape(spelt(name)) for name in wanted)
                numbered = re.compile(rf"({some})_?\d+")
                found[role] += [name for name in names if numbered.fullmatch(spelt(name))]
            if not found[role] and role in _REQUIRED and role not in self._chosen:
                found[role] = named_last(wanted, names)
            if found[role]:
                self._missing.discard(role)
            elif role in self._needed:
                raise self._no_column(role, names, where or self._name)
        extra = (next(iter(found[role]), None) for role in _EXTRA)
        if not self._reading.columns:
            self._reading.columns = {role: found[role][0] for role in _REQUIRED}
        return Columns(found["query"][0], found["positive"][0], found["negative"], *extra)

    def _no_column(self, role: str, names: Iterable[str], where: str) -> InputError:
        rule = f"no column {' or '.join(self._wanted[role])}"
        rule += f"; say which has the {role} by {self._how.format(role)}"
        head = "" if self._loose else " (the first row must name the columns)"
        return InputError(f"{where}: {rule}; there are {show(list(names))}{head}")

    def read(self, split: str, rows: Rows) -> Iterator[tuple[str, str, Example]]:
        """Yield `(split, where, example)` of the rows of a split."""
        row: Record = {}
        for where, row in rows:
            names = tuple(row)
            if names not in self._shapes:
                if len(self._shapes) == _SHAPES:
                    self._shapes.clear()
                self._shapes[names] = self.assign(names, where)
            columns, reading = self._shapes[names], self._reading
            if self._unsure:
                self._settle(columns, row, where)
            reading.rows += 1
            if why := flaw(row, columns.query, columns.positive):
                reading.skip(why, where)
                continue
            example = _parse(self.without(columns), row, where)
            if reading.repeats(example):
                reading.skip(REPEATED, where)
                continue
            yield split, where, example
        for role in self._missing if row else ():
            raise self._no_column(role, row, self._name)

    def without(self, columns: Columns) -> Columns:
        """Return columns without those that were left out."""
        return columns._replace(**self._left_out) if self._left_out else columns

    def _settle(self, columns: Columns, row: Record, where: str) -> None:
        """Leave out what the first value shows to be something else."""
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
                self._left_out[role] = None


def named_last(wanted: Collection[str], names: Iterable[str]) -> list[str]:
    """Find the only column whose last word is a usual name: `Customer Question`, `the_answer`."""
    usual = set(map(plain, wanted))
    like = [name for name in names if plain(re.split(r"[\s_-]+", name.strip())[-1]) in usual]
    return like if len(like) == 1 else []


def _exact(name: str) -> str:
    return name.strip()


def plain(name: str) -> str:
    """Spell a column's name without case, spaces and dashes: `Search Query` is `search_query`."""
    return re.sub(r"[\s_-]+", "", name).casefold()


def flaw(row: Record, *needed: str) -> str | None:
    """Say why a row holds no example: it is blank, or one of the columns that it needs is empty."""
    if all(map(is_empty, row.values())):
        return BLANK
    return next(
        (f"the column {name!r} is empty" for name in needed if is_empty(row.get(name))), None
    )


def is_empty(cell: object) -> bool:
    """Tell whether a cell, or every part of a list, is missing or made of spaces."""
    cells = cell if isinstance(cell, list) else [cell]
    return all(one is None or (isinstance(one, str) and not one.strip()) for one in cells)


def _parse(columns: Columns, row: Record, where: str) -> Example:
    """Make an example of a row; an empty cell, or one of spaces, is no target."""
    positives = strings(row.get(columns.positive), columns.positive, where)
    negatives = (t for name in columns.negatives for t in strings(row.get(name), name, where))
    return Example(
        identifier(row, columns.query_id, where) if columns.query_id else None,
        string(row, columns.query, where),
        [Target(None, "", text) for text in positives if text.strip()],
        [Target(None, "", text) for text in negatives if text.strip()],
        strings(row.get(columns.answers), columns.answers, where) if columns.answers else (),
    )


def corpus_targets(rows: Rows) -> Iterator[tuple[str, Target]]:
    """Yield `(where, target)` of the rows of a corpus."""
    return ((where, parse_target(row, where, "id")) for where, row in rows)


Cells = Iterator[list[str | None]]


def corpus_table(dataset: RetrievalDataset) -> tuple[list[str], Cells]:
    """Return the columns of a corpus, and a row for each target."""
    return ["id", "title", "text"], ([t.id, t.title, t.text] for t in targets(dataset))


def split_table(dataset: RetrievalDataset, split: str) -> tuple[list[str], Cells]:
    """Return the columns of a split, and a row for each pair of a query and a positive.

    There are as many columns for negatives as the query with the most has.
    """
    most = int(np.bincount(dataset.split(split).negatives[:, 0]).max(initial=0))
    names = ["query", "positive", *(f"negative_{i + 1}" for i in range(most))]
    return names, _rows(dataset, split, most)


def _rows(dataset: RetrievalDataset, split: str, most: int) -> Cells:
    short = 0
    for example in answered(dataset, split):
        negatives = [target.joined for target in example.negatives]
        empty = [None] * (most - len(negatives))
        for target in example.positives:
            short += bool(empty)
            yield [example.query, target.joined, *negatives, *empty]
    if short:
        what = f"fewer than {most} negatives: the rest of their cells are empty"
        _LOG.warning("%s: %d rows of %s have %s", dataset.name, short, split, what)


def write_arrow(
    path: Path, names: list[str], cells: Cells, open_writer: Callable[[Path, pa.Schema], Any]
) -> None:
    """Write a table of texts that never stands in memory as a whole."""
    schema = pa.schema([(name, pa.large_string()) for name in names])
    with open_writer(path, schema) as writer:
        while some := list(islice(cells, _BATCH)):
            columns = [pa.array(column, pa.large_string()) for column in zip(*some, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema))


def arrow_rows(
    pieces: Iterable[pa.RecordBatch | pa.Table], total: int, name: str, progress: bool
) -> Rows:
    """Yield `(where, row)`; a damaged piece is refused before its offsets are followed."""
    pieces, number = iter(pieces), 1
    with count_bar(total, name, "row", progress) as bar:
        while True:
            try:
                if (piece := next(pieces, None)) is None:
                    return
                piece.validate(full=True)
            except (pa.ArrowException, OSError, ValueError) as error:  # a torn page, bad UTF-8
                raise InputError(f"{name} is damaged ({error})") from None
            for part in parts(piece, name, number):
                try:
                    found = part.to_pylist()
                except (pa.ArrowException, ValueError) as error:
                    raise InputError(f"{name} is damaged ({error})") from None
                for row in found:
                    yield f"{name}, row {number}", row
                    number += 1
                bar.update(len(found))
