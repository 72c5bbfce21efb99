"""From a name or a folder to questions with answers over a corpus."""

import logging
from itertools import chain
from pathlib import Path

import numpy as np

from unstale.data.formats.toolkits import read_corpus
from unstale.data.gather import Gatherer
from unstale.data.lines import json_records
from unstale.data.load import load_dataset
from unstale.errors import InputError
from unstale.rag.questions import QuestionSet
from unstale.rag.records import parse_record

SPLITS = {"train": "train", "dev": "dev", "validation": "dev", "test": "test"}
_CORPORA = ("corpus.jsonl", "passages.jsonl", "psgs_w100.tsv")
_LOG = logging.getLogger(__name__)


def load_questions(name_or_path: str, *, progress: bool = True) -> QuestionSet:
    """Read a dataset that has answers, or a folder of question files.

    A folder of question files holds `train`, `dev` (or `validation`) and `test`, .json or .jsonl,
    and the corpus as corpus.jsonl, passages.jsonl or psgs_w100.tsv. Without one, the corpus is
    every context that the questions bring.
    """
    folder = Path(name_or_path)
    files = _question_files(folder)
    if not files:
        return QuestionSet.of(load_dataset(name_or_path, progress=progress))
    return _read_folder(folder, files, progress)


def _question_files(folder: Path) -> dict[str, Path]:
    """Find the question file of each split; none if the folder is in a format of retrieval."""
    files: dict[str, Path] = {}
    if (folder / "queries.jsonl").is_file():
        return files
    for stem, split in SPLITS.items():
        for suffix in (".jsonl", ".json"):
            path = folder / f"{stem}{suffix}"
            if path.is_file():
                _, first = next(json_records(path, progress=False), ("", {}))
                if "positive_ctxs" in first or not {"question", "Question"} & first.keys():
                    return {}
                if split in files:
                    raise InputError(f"{files[split]} and {path} are both the split {split}")
                files[split] = path
    return files


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
