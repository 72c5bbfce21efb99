"""DPR: json with `question`, `answers`, `positive_ctxs`, ..., and a corpus psgs_w100.tsv.

Hard negatives come before plain ones; both are negatives here. With a corpus, a context's id names
a target of it; without, the contexts are the corpus.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.examples import (
    Record,
    gather,
    json_examples,
    json_files,
    parse_target,
)
from unstale.data.formats.format import Format, Source
from unstale.data.formats.walk import answered, targets, write_array, write_csv
from unstale.data.gather import Example, Target
from unstale.data.lines import csv_rows, objects, show, string, strings
from unstale.errors import InputError

_CORPUS = "psgs_w100.tsv"
_HEADER = ["id", "text", "title"]
_NEGATIVES = ("hard_negative_ctxs", "negative_ctxs")


def _read(source: Source) -> RetrievalDataset:
    files = json_files(source, "question", "positive_ctxs")
    corpus = source.corpus(_CORPUS)
    passages = read_passages(corpus, source.progress) if corpus else ()
    examples = json_examples(files, _parse, source.progress)
    return gather(examples, passages).dataset(source.name)


def read_passages(path: Path, progress: bool) -> Iterator[tuple[str, Target]]:
    """Yield `(where, target)` of a psgs_w100.tsv: id, text and title, quoted as csv is."""
    for line, fields in csv_rows(path, progress, "\t"):
        if fields[:2] == _HEADER[:2]:
            continue
        if len(fields) not in (2, 3):
            found = show(fields)
            raise InputError(f"{path}:{line}: expected {', '.join(_HEADER)}, found {found}")
        yield f"{path}:{line}", Target(fields[0], fields[2] if len(fields) == 3 else "", fields[1])


def _parse(record: Record, where: str) -> Example:
    return Example(
        None,
        string(record, "question", where),
        parse_contexts(record, "positive_ctxs", where),
        [c for key in _NEGATIVES for c in parse_contexts(record, key, where)],
        strings(record.get("answers"), "answers", where),
    )


def parse_contexts(record: Record, key: str, where: str) -> list[Target]:
    """Take a list of passages out of a record, in DPR's or in FiD's words."""
    ids = ("passage_id", "psg_id", "id")
    return [parse_target(c, f"{where}, {key}", *ids) for c in objects(record, key, where)]


def _write(dataset: RetrievalDataset, folder: Path) -> None:
    passages = ((t.id, t.text, t.title) for t in targets(dataset))
    write_csv(folder / _CORPUS, chain([_HEADER], passages), "\t")
    for split in dataset.qrels:
        write_array(folder / f"{split}.json", map(_render, answered(dataset, split)))


def _render(example: Example) -> Record:
    return {
        "question": example.query,
        "answers": list(example.answers),
        "positive_ctxs": [_render_context(t) for t in example.positives],
        "negative_ctxs": [],
        "hard_negative_ctxs": [_render_context(t) for t in example.negatives],
    }


def _render_context(target: Target) -> Record:
    return {"title": target.title, "text": target.text, "passage_id": target.id}


FORMAT = Format(
    "dpr",
    f"JSON with question and positive_ctxs, alone or in a folder with {_CORPUS}",
    fits=lambda source: bool(json_files(source, "question", "positive_ctxs")),
    read=_read,
    write=_write,
    lacks=("query ids", "grades"),
)
