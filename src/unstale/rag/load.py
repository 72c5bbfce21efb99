"""From a name, a file or a folder to questions with answers over a corpus."""

import logging
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np

from unstale.data.formats.format import splits_of
from unstale.data.formats.reading import Reading
from unstale.data.gather import Example, Gatherer
from unstale.data.lines import json_records
from unstale.data.load import load_dataset
from unstale.data.names import split_name
from unstale.errors import InputError
from unstale.rag.questions import QuestionSet
from unstale.rag.records import parse_record
from unstale.rag.table import TABLES, is_question_table, read_table
from unstale.rag.texts import CORPORA, no_corpus, read_texts

_DEV = ("validation", "valid", "val")  # other words for it
_JSON = (".json", ".jsonl")
_LOG = logging.getLogger(__name__)


def load_questions(
    name_or_path: str, *, corpus: str | None = None, strict: bool = False, progress: bool = True
) -> QuestionSet:
    """Read questions with answers, and the texts in which answers are looked for.

    Args:
        name_or_path: A table of questions and answers (.csv, .tsv, .parquet or .jsonl), a folder of
            such files whose names tell the split (NQ-open.dev.jsonl, hotpot_train_v1.1.json,
            train.csv), or a dataset that has answers. `PATH:question=COLUMN,answer=COLUMN` names
            the columns of a table.
        corpus: A folder of .txt and .md files, or one file: .txt, .md, .jsonl, .csv, .tsv or
            .parquet. Default: the corpus file of the folder (corpus.jsonl, passages.jsonl,
            psgs_w100.tsv, corpus.csv or corpus.parquet), or every context that the questions bring.
        strict: Refuse blank rows, rows with an empty cell and exact duplicates in a table. They
            are skipped and counted otherwise.
        progress: Show progress bars, and say what was read.
    """
    _, place, columns = split_name(name_or_path)
    path = Path(place)
    files = _question_files(path)
    if not files and corpus:
        rule = "--corpus needs a file or a folder of questions and answers"
        raise InputError(f"{rule}; {name_or_path} is none")
    if not files:
        return QuestionSet.of(load_dataset(name_or_path, progress=progress))
    reading = Reading(strict=strict)
    beside = (str(found) for name in CORPORA if (found := path / name).is_file())
    questions = _read(path, files, columns, corpus or next(beside, None), progress, reading)
    reading.check(place)
    if progress and reading.rows:
        reading.tell(place, questions.dataset)
    return questions


def _question_files(path: Path) -> dict[str, Path]:
    """Find the question file of each split; none if it is a format of retrieval."""
    if path.is_file():
        return {"train": path} if path.suffix in TABLES or _asks(path) else {}
    if not path.is_dir() or (path / "queries.jsonl").is_file():
        return {}
    found: list[Path] = []
    for file in sorted(path.iterdir()):
        if file.name in CORPORA:
            continue
        if file.suffix in _JSON and _knows_positives(file):
            return {}
        found += [file] if _asks(file) else []
    files: dict[str, Path] = {}
    for word, parts in splits_of(found).items():
        split = "dev" if word in _DEV else word
        for file in parts:
            if split in files:
                raise InputError(f"{files[split]} and {file} are both the split {split}")
            files[split] = file
    order = sorted(files, key=lambda split: (split != "train", split))  # of the questions, too
    return {split: files[split] for split in order} if "train" in files else {}


def _asks(file: Path) -> bool:
    """Tell whether a file begins with a question that has an answer."""
    if file.suffix in TABLES:
        return is_question_table(file)
    return file.suffix in _JSON and bool({"question", "Question"} & _first(file).keys())


def _knows_positives(file: Path) -> bool:
    """Tell whether a file is one of DPR's, which is read as what it is."""
    return "positive_ctxs" in _first(file)


def _first(file: Path) -> dict[str, object]:
    return next(json_records(file, progress=False), ("", {}))[1]


def _examples(
    path: Path, columns: Mapping[str, str], progress: bool, reading: Reading
) -> Iterator[tuple[str, Example]]:
    if path.suffix in TABLES:
        return read_table(path, columns, progress, reading)
    return ((where, parse_record(r, where)) for where, r in json_records(path, progress))


def _read(
    path: Path,
    files: Mapping[str, Path],
    columns: Mapping[str, str],
    corpus: str | None,
    progress: bool,
    reading: Reading,
) -> QuestionSet:
    gatherer = Gatherer()
    for where, target in read_texts(corpus, progress) if corpus else ():
        gatherer.corpus(target, where)
    rows: dict[str, list[int]] = {}
    taught: dict[int, str] = {}
    ids: set[str] = set()
    for split, file in files.items():
        rows[split] = []
        asked: dict[str, tuple[int, list[str]]] = {}  # the row and the answers of each question
        for where, example in _examples(file, columns, progress, reading):
            if example.query in asked:  # asked twice: either answer will do
                row, answers = asked[example.query]
                answers += [answer for answer in example.answers if answer not in answers]
            else:
                id = example.id or f"{split}-{len(asked)}"
                id = f"{split}/{id}" if id in ids else id  # many sets count each split from 0
                ids.add(id)
                answers = list(example.answers)
                row = gatherer.new_query(example.query, id, where, answers)
                asked[example.query] = row, answers
                rows[split].append(row)
                if example.taught is not None:
                    taught[row] = example.taught
            for target in () if corpus else chain(example.positives, example.negatives):
                column = gatherer.target(target, where)
                gatherer.judge(split, row, column, int(target in example.positives))
    if not len(gatherer.targets):
        raise no_corpus(path)
    if corpus is None and progress:
        count = len(gatherer.targets)
        _LOG.warning("%s: no corpus; the questions' %d contexts are it", path, count)
    place = path.resolve()
    dataset = gatherer.dataset(place.name if place.is_dir() else place.stem, judged=False)
    return QuestionSet(dataset, {split: np.array(own) for split, own in rows.items()}, taught)
