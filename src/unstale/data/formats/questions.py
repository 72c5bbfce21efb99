"""DPR's files of questions and answers, SPLIT.qa.csv: a split without qrels."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from unstale.data import lines
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.format import splits_of
from unstale.data.formats.walk import queries
from unstale.errors import InputError


def question_splits(files: Sequence[Path]) -> dict[str, Path]:
    """Tell the splits of files of questions by their names, without the `.qa` of nq-test.qa.csv."""
    named = {file.with_name(f"{file.stem.removesuffix('.qa')}.csv"): file for file in files}
    return {split: named[part] for split, parts in splits_of([*named]).items() for part in parts}


def read_questions(path: Path, progress: bool) -> Iterator[tuple[str, str, list[str]]]:
    """Yield `(where, question, answers)` of DPR's files: a question, a tab, a Python list."""
    for line, fields in lines.csv_rows(path, progress, "\t"):
        where = f"{path}:{line}"
        if len(fields) != 2:
            raise InputError(f"{where}: expected question and answers, found {lines.show(fields)}")
        try:
            answers = ast.literal_eval(fields[1])  # a list of strings is no code that runs
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            rule = "expected a list of answers such as ['Paris']"
            raise InputError(f"{where}: {rule}, found {lines.show(fields[1])}") from None
        if not (answers := lines.strings(answers, "answers", where)):
            raise InputError(f"{where}: the question {lines.show(fields[0])} has no answer")
        yield where, fields[0], answers


def asks(file: Path) -> bool:
    """Tell whether a file begins with a question and answers."""
    try:
        return next(read_questions(file, progress=False), None) is not None
    except InputError:
        return file.name.endswith(".qa.csv")  # then the error is to be seen


def write_questions(dataset: RetrievalDataset, folder: Path) -> None:
    """Write the splits that have answers and no qrels."""
    for split, rows in dataset.questions.items():
        first, *rest = ((q.text, repr(q.answers)) for q in queries(dataset, rows))
        lines.write_csv(folder / f"{split}.qa.csv", first, rest, "\t")
