"""A table of questions and answers: which column holds which, and what does a row say?"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, final

from unstale.data.formats.columns import flaw, named_last, plain
from unstale.data.formats.reading import REPEATED, Reading
from unstale.data.formats.tables import table_rows
from unstale.data.gather import Example, Target
from unstale.data.lines import Record, show, string, strings
from unstale.errors import InputError

# role: the names of columns that play it if none is named; case, spaces, _ and - do not matter.
ROLES = {
    "question": ("question", "query", "anchor", "prompt", "search query", "sentence1"),
    "answer": ("answer", "answers", "response", "reply", "output"),
    "context": ("context", "passage", "document", "positive", "text"),
}
TABLES = (".csv", ".tsv", ".parquet")


@final
class Columns(NamedTuple):
    """The column of each role; a table may have no contexts."""

    question: str
    answer: str
    context: str | None


def assign(
    names: Collection[str],
    roles: Mapping[str, Sequence[str]],
    needed: Collection[str],
    chosen: Mapping[str, str],
    where: str,
) -> dict[str, str | None]:
    """Find the column of each role, as chosen or by its usual names; a needed one must be there."""
    if unknown := sorted(set(chosen) - set(roles)):
        rule = f"columns can be {', '.join(roles)}, not {', '.join(unknown)}"
        raise InputError(f"{where}: {rule}")
    by_name, found = {plain(name): name for name in reversed(list(names))}, dict[str, str | None]()
    for role, usual in roles.items():
        wanted = [chosen[role]] if role in chosen else usual
        found[role] = next((by_name[key] for key in map(plain, wanted) if key in by_name), None)
        if found[role] is None and role in needed and role not in chosen:
            found[role] = next(iter(named_last(usual, names)), None)
        if found[role] is None and (role in chosen or role in needed):
            rule = f"no column {' or '.join(wanted)}; name the {role} by PATH:{role}=COLUMN"
            raise InputError(f"{where}: {rule}; there are {show(list(names))}")
    return found


def _find_columns(names: Collection[str], chosen: Mapping[str, str], where: str) -> Columns:
    found = assign(names, ROLES, ("question", "answer"), chosen, where)
    return Columns(str(found["question"]), str(found["answer"]), found["context"])


def is_question_table(path: Path) -> bool:
    """Tell whether a table has columns for questions and answers, by its first row."""
    try:
        where, row = next(table_rows(path, False, Reading()), ("", {}))
        _find_columns(row, {}, where)
    except InputError:
        return False
    return True


def read_table(
    path: Path, chosen: Mapping[str, str], progress: bool, reading: Reading
) -> Iterator[tuple[str, Example]]:
    """Yield `(where, example)` of the rows that have a question and an answer.

    Blank rows, rows with an empty cell and repeated rows are skipped, and counted in `reading`.
    """
    columns = None
    for where, row in table_rows(path, progress, reading):
        if columns is None:
            columns = _find_columns(row, chosen, str(path))
            found = columns._asdict().items()
            reading.columns = {role: name for role, name in found if name is not None}
        reading.rows += 1
        if why := flaw(row, columns.question, columns.answer):
            reading.skip(why, where)
            continue
        example = _parse(columns, row, where)
        if reading.repeats(example):
            reading.skip(REPEATED, where)
            continue
        yield where, example


def _parse(columns: Columns, row: Record, where: str) -> Example:
    contexts = strings(row.get(columns.context), columns.context, where) if columns.context else []
    return Example(
        None,
        string(row, columns.question, where),
        [Target(None, "", text) for text in contexts if text.strip()],
        [],
        [
            answer
            for answer in _answers(row[columns.answer], columns.answer, where)
            if answer.strip()
        ],
    )


def _answers(cell: object, name: str, where: str) -> Sequence[str]:
    """Return the answers of a cell: a text, a list, or a list written as text, as pandas does."""
    if isinstance(cell, str) and cell.strip().startswith("["):
        try:
            listed = ast.literal_eval(cell.strip())  # a list of strings is no code that runs
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return [cell]
        if isinstance(listed, list) and listed and all(isinstance(part, str) for part in listed):
            return strings(listed, name, where)
    return strings(cell, name, where)
