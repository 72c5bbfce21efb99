"""From a name or a folder to questions with answers over a corpus."""

import logging
from itertools import chain
from pathlib import Path

import numpy as np

from unstale.data.formats.dpr import read_passages
from unstale.data.formats.examples import json_targets
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
    files = {
        split: path
        for stem, split in SPLITS.items()
        for suffix in (".jsonl", ".json")
        if (path := folder / f"{stem}{suffix}").is_file()
    }
    if not files or (folder / "queries.jsonl").is_file():
        return QuestionSet.of(load_dataset(name_or_path, progress=progress))
    return _read_folder(folder, files, progress)


def _read_folder(folder: Path, files: dict[str, Path], progress: bool) -> QuestionSet:
    gatherer = Gatherer()
    corpus = next((path for name in _CORPORA if (path := folder / name).is_file()), None)
    if corpus is not None and corpus.suffix == ".tsv":
        passages = read_passages(corpus, progress)
    else:
        passages = json_targets(corpus, progress, "_id", "id")
    for where, target in passages:
        gatherer.corpus(target, where)
    rows: dict[str, list[int]] = {}
    for split, path in files.items():
        rows[split] = []
        for line, record in json_records(path, progress):
            where = f"{path}:{line}"
            example = parse_record(record, where)
            row = gatherer.query(split, example.query, where, example.id, example.answers)
            rows[split].append(row)
            if corpus is None:
                for target in chain(example.positives, example.negatives):
                    column = gatherer.target(target, where)
                    gatherer.judge(split, row, column, int(target in example.positives))
    if not len(gatherer.targets):
        looked = ", ".join(_CORPORA)
        raise InputError(f"{folder} has no corpus ({looked}), and its questions bring no contexts")
    if corpus is None:
        count = len(gatherer.targets)
        _LOG.warning("%s: no corpus; the questions' %d contexts are it", folder, count)
    dataset = gatherer.dataset(folder.resolve().name, judged=False)
    return QuestionSet(dataset, {split: np.unique(own) for split, own in rows.items()})
