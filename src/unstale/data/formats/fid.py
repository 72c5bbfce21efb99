"""FiD and Atlas: `question`, `answers` and `ctxs` (or `passages`), and a corpus passages.jsonl.

These files say what was retrieved, not what is relevant. A context is taken as relevant if it says
`has_answer`, or else if it contains one of the answers.
"""

from collections.abc import Sequence
from pathlib import Path

from unstale.data.answers import has_answer
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.dpr import parse_contexts
from unstale.data.formats.examples import (
    Record,
    gather,
    json_examples,
    json_files,
    json_targets,
)
from unstale.data.formats.format import Format, Source
from unstale.data.formats.walk import examples, targets, write_lines
from unstale.data.gather import Example, Target
from unstale.data.lines import identifier, string, strings

_CORPUS = "passages.jsonl"


def _read(source: Source) -> RetrievalDataset:
    corpus = json_targets(source.corpus(_CORPUS), source.progress, "id")
    found = json_examples(_files(source), parse_fid, source.progress)
    # Questions and answers alone are of use too, to a reader.
    return gather(found, corpus).dataset(source.name, judged=False)


def _files(source: Source) -> list[Path]:
    files = json_files(source, "question", "ctxs") + json_files(source, "question", "passages")
    return sorted(set(files))


def parse_fid(record: Record, where: str) -> Example:
    """Make an example of a record: contexts with an answer are positive, the others negative."""
    answers = strings(record.get("answers") or record.get("target"), "answers", where)
    id = identifier(record, "id", where)
    sides = split_contexts(record, answers, where)
    return Example(id, string(record, "question", where), *sides, answers)


def split_contexts(
    record: Record, answers: Sequence[str], where: str
) -> tuple[list[Target], list[Target]]:
    """Return the contexts with an answer, and those without."""
    key = "ctxs" if "ctxs" in record else "passages"
    contexts = parse_contexts(record, key, where)
    sides: tuple[list[Target], list[Target]] = ([], [])
    for raw, context in zip(record.get(key) or [], contexts, strict=True):
        told = raw.get("has_answer", raw.get("hasanswer"))
        good = bool(told) if told is not None else has_answer(context.text or "", answers)
        sides[0 if good else 1].append(context)
    return sides


def _write(dataset: RetrievalDataset, folder: Path) -> None:
    passages = ({"id": t.id, "title": t.title, "text": t.text} for t in targets(dataset))
    write_lines(folder / _CORPUS, passages)
    for split in dataset.qrels:
        write_lines(folder / f"{split}.jsonl", map(_render, examples(dataset, split)))


def _render(example: Example) -> Record:
    sides = ((True, example.positives), (False, example.negatives))
    contexts = [
        {"id": t.id, "title": t.title, "text": t.text, "has_answer": good}
        for good, side in sides
        for t in side
    ]
    answers = list(example.answers)
    return {"id": example.id, "question": example.query, "answers": answers, "ctxs": contexts}


FORMAT = Format(
    "fid",
    f"JSON with question and ctxs or passages, alone or in a folder with {_CORPUS}",
    fits=lambda source: bool(_files(source)),
    read=_read,
    write=_write,
    lacks=("grades",),
)
