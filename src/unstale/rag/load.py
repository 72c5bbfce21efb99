"""From a name or a folder to questions with answers over a corpus."""

import logging
from itertools import chain
from pathlib import Path

import numpy as np

from unstale.data.formats.format import splits_of
from unstale.data.formats.toolkits import read_corpus
from unstale.data.gather import Gatherer
from unstale.data.lines import json_records
from unstale.data.load import load_dataset
from unstale.errors import InputError
from unstale.rag.questions import QuestionSet
from unstale.rag.records import parse_record

_DEV = ("validation", "valid", "val")  # other words for it
_CORPORA = ("corpus.jsonl", "passages.jsonl", "psgs_w100.tsv")
_LOG = logging.getLogger(__name__)


def load_questions(name_or_path: str, *, progress: bool = True) -> QuestionSet:
    """Read a dataset that has answers, or a folder of question files.

    A folder of question files holds one of `train` and others, .json or .jsonl, whose names tell
    the split (NQ-open.dev.jsonl, hotpot_train_v1.1.json, unfiltered-web-train.json), and the corpus
    as corpus.jsonl, passages.jsonl or psgs_w100.tsv. Without one, the corpus is every context that
    the questions bring.
    """
    folder = Path(name_or_path)
    files = _question_files(folder)
    if not files:
        return QuestionSet.of(load_dataset(name_or_path, progress=progress))
    return _read_folder(folder, files, progress)


def _question_files(folder: Path) -> dict[str, Path]:
    """Find the question file of each split; none if the folder is in a format of retrieval."""
    if not folder.is_dir() or (folder / "queries.jsonl").is_file():
        return {}
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".jsonl") and path.name not in _CORPORA:
            first = next(json_records(path, progress=False), ("", {}))[1]
            if "positive_ctxs" in first:
                return {}
            found += [path] if {"question", "Question"} & first.keys() else []
    files: dict[str, Path] = {}
    for word, parts in splits_of(found).items():
        split = "dev" if word in _DEV else word
        for path in parts:
            if split in files:
                raise InputError(f"{files[split]} and {path} are both the split {split}")
            files[split] = path
    order = sorted(files, key=lambda split: (split != "train", split))  # of the questions, too
    return {split: files[split] for split in order} if "train" in files else {}


def _read_folder(folder: Path, files: dict[str, Path], progress: bool) -> QuestionSet:
    gatherer = Gatherer()
    corpus = next((path for name in _CORPORA if (path := folder / name).is_file()), None)
    for where, target in read_corpus(corpus, progress, "_id", "id") if corpus else ():
        gatherer.corpus(target, where)
    rows: dict[str, list[int]] = {}
    ids: set[str] = set()
    for split, path in files.items():
        rows[split] = []
        asked: dict[str, tuple[int, list[str]]] = {}  # the row and the answers of each question
        for where, record in json_records(path, progress):
            example = parse_record(record, where)
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
            for target in () if corpus else chain(example.positives, example.negatives):
                column = gatherer.target(target, where)
                gatherer.judge(split, row, column, int(target in example.positives))
    if not len(gatherer.targets):
        looked = ", ".join(_CORPORA)
        raise InputError(f"{folder} has no corpus ({looked}), and its questions bring no contexts")
    if corpus is None:
        count = len(gatherer.targets)
        _LOG.warning("%s: no corpus; the questions' %d contexts are it", folder, count)
    dataset = gatherer.dataset(folder.resolve().name, judged=False)
    return QuestionSet(dataset, {split: np.array(own) for split, own in rows.items()})
