"""Tevatron, both ways: with ids and a corpus.jsonl, and with the passages inside the examples."""

from pathlib import Path

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.examples import (
    Record,
    gather,
    json_examples,
    json_files,
    json_targets,
    parse_target,
)
from unstale.data.formats.format import Format, Source
from unstale.data.formats.walk import answered, targets, write_lines
from unstale.data.gather import Example, Target
from unstale.data.lines import identifier, objects, string, strings
from unstale.errors import InputError

_CORPUS = "corpus.jsonl"


def _read(source: Source) -> RetrievalDataset:
    corpus = source.corpus(_CORPUS)
    if corpus is None:
        rule = f"its examples name targets by id, so give a folder that has {_CORPUS} too"
        raise InputError(f"{source.place}: {rule}")
    return _gather(source, "positive_document_ids", corpus)


def _read_inline(source: Source) -> RetrievalDataset:
    return _gather(source, "positive_passages", source.corpus(_CORPUS))


def _gather(source: Source, key: str, corpus: Path | None) -> RetrievalDataset:
    passages = json_targets(corpus, source.progress, "docid")
    examples = json_examples(json_files(source, "query_id", key), _parse, source.progress)
    return gather(examples, passages).dataset(source.name)


def _parse(record: Record, where: str) -> Example:
    """Make an example of a record of either kind."""
    query = "query" if "query_text" not in record else "query_text"
    return Example(
        identifier(record, "query_id", where),
        string(record, query, where),
        _parse_side(record, "positive", where),
        _parse_side(record, "negative", where),
        strings(record.get("answers"), "answers", where),
    )


def _parse_side(record: Record, side: str, where: str) -> list[Target]:
    if f"{side}_document_ids" in record:
        key = f"{side}_document_ids"
        ids = record[key]
        if isinstance(ids, list):
            ids = [str(i) if isinstance(i, int) else i for i in ids]
        return [Target(id, "", None) for id in strings(ids, key, where)]
    key = f"{side}_passages"
    return [parse_target(p, f"{where}, {key}", "docid") for p in objects(record, key, where)]


def _write(dataset: RetrievalDataset, folder: Path) -> None:
    # Tevatron trains on `text` alone here, so the title stands in it.
    joined = ({"docid": t.id, "text": t.joined} for t in targets(dataset))
    write_lines(folder / _CORPUS, joined)
    for split in dataset.qrels:
        write_lines(folder / f"{split}.jsonl", map(_render, answered(dataset, split)))


def _render(example: Example) -> Record:
    return {
        "query_id": example.id,
        "query_text": example.query,
        "positive_document_ids": [t.id for t in example.positives],
        "negative_document_ids": [t.id for t in example.negatives],
    } | _answers(example)


def _write_inline(dataset: RetrievalDataset, folder: Path) -> None:
    write_lines(folder / _CORPUS, map(_passage, targets(dataset)))
    for split in dataset.qrels:
        write_lines(folder / f"{split}.jsonl", map(_render_inline, answered(dataset, split)))


def _render_inline(example: Example) -> Record:
    return {
        "query_id": example.id,
        "query": example.query,
        "positive_passages": [_passage(t) for t in example.positives],
        "negative_passages": [_passage(t) for t in example.negatives],
    } | _answers(example)


def _passage(target: Target) -> Record:
    return {"docid": target.id, "title": target.title, "text": target.text}


def _answers(example: Example) -> Record:
    return {"answers": list(example.answers)} if example.answers else {}


FORMAT = Format(
    "tevatron",
    f"a folder with JSON that has query_id and positive_document_ids, and {_CORPUS}",
    fits=lambda source: bool(json_files(source, "query_id", "positive_document_ids")),
    read=_read,
    write=_write,
    lacks=("titles", "grades"),
)
INLINE = Format(
    "tevatron-inline",
    f"JSON with query_id and positive_passages, alone or in a folder with {_CORPUS}",
    fits=lambda source: bool(json_files(source, "query_id", "positive_passages")),
    read=_read_inline,
    write=_write_inline,
    lacks=("grades",),
)
