"""MS MARCO: collection.tsv, and queries.SPLIT.tsv with qrels.SPLIT.tsv for each split."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.format import Format, Location
from unstale.data.formats.walk import check_ids, judgements, queries, targets
from unstale.data.gather import Gatherer, Judged, Target
from unstale.data.lines import show, text_lines, write_fields
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_CORPUS = "collection.tsv"


def _read(source: Location) -> RetrievalDataset:
    folder, progress = source.path, source.progress
    files = {_split(file): file for file in sorted(folder.glob("qrels.*.tsv"))}
    if not files:
        raise InputError(f"{folder} has no qrels.SPLIT.tsv beside {_CORPUS}")
    for file in sorted(folder.glob("queries.*.tsv")):
        if _split(file) not in files:
            _LOG.warning("%s is not read: there are no qrels for it", file)
    gatherer = Gatherer()
    for where, id, text in _pairs(folder / _CORPUS, progress):
        gatherer.corpus(Target(id, "", text), where)
    for split in files:
        for where, id, text in _pairs(folder / f"queries.{split}.tsv", progress):
            gatherer.listed_query(split, text, where, id)
    for split, file in files.items():
        gatherer.judge_lines(split, str(file), _qrels(file, progress))
    return gatherer.dataset(source.name)


def _split(file: Path) -> str:
    """Return what stands between the first word and the suffix: queries.dev.small.tsv."""
    return file.name.split(".", 1)[1].removesuffix(".tsv")


def _pairs(path: Path, progress: bool) -> Iterator[tuple[str, str, str]]:
    """Yield `(where, id, text)`; a text may hold anything but a line end."""
    for number, line in text_lines(path, progress):
        id, tab, text = line.rstrip("\r\n").partition("\t")
        if not tab and id:
            raise InputError(f"{path}:{number}: expected an id, a tab and a text, found {show(id)}")
        if tab:
            yield f"{path}:{number}", id, text


def _qrels(path: Path, progress: bool) -> Iterator[Judged]:
    for number, line in text_lines(path, progress):
        fields = line.rstrip("\r\n").split("\t")  # an id may hold spaces
        if len(fields) != 4:
            fields = line.split()
        if fields and len(fields) != 4:
            rule = "expected query, 0, target and grade"
            raise InputError(f"{path}:{number}: {rule}, found {show(fields)}")
        if fields:
            yield number, fields[0], fields[2], fields[3]


def _write(dataset: RetrievalDataset, folder: Path) -> None:
    check_ids(dataset)
    write_fields(folder / _CORPUS, ((t.id, t.joined) for t in targets(dataset)))
    for split, qrels in dataset.qrels.items():
        judged = queries(dataset, np.unique(qrels.query))
        write_fields(folder / f"queries.{split}.tsv", ((q.id, q.text) for q in judged))
        rows = ((query, 0, target, grade) for query, target, grade in judgements(dataset, split))
        write_fields(folder / f"qrels.{split}.tsv", rows)


FORMAT = Format(
    "msmarco",
    f"a folder with {_CORPUS}, queries.SPLIT.tsv and qrels.SPLIT.tsv",
    fits=lambda source: source.beside(_CORPUS) is not None,
    read=_read,
    write=_write,
    lacks=("titles", "answers"),
    check=check_ids,
)
