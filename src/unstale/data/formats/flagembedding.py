"""FlagEmbedding: jsonl with `query`, `pos` and `neg`, texts all, and a pool of candidates."""

from pathlib import Path

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.examples import (
    Record,
    gather,
    json_examples,
    json_files,
    json_targets,
)
from unstale.data.formats.format import TWINS, Format, Source
from unstale.data.formats.walk import answered, targets, write_lines
from unstale.data.gather import Example, Target
from unstale.data.lines import string, strings

_CORPUS = "candidate_pool.jsonl"


def _read(source: Source) -> RetrievalDataset:
    corpus = json_targets(source.corpus(_CORPUS), source.progress)
    examples = json_examples(json_files(source, "query", "pos"), _parse, source.progress)
    return gather(examples, corpus, by_text=True).dataset(source.name)


def _parse(record: Record, where: str) -> Example:
    positives, negatives = (
        [Target(None, "", text) for text in strings(record.get(key), key, where)]
        for key in ("pos", "neg")
    )
    return Example(None, string(record, "query", where), positives, negatives)


def _write(dataset: RetrievalDataset, folder: Path) -> None:
    write_lines(folder / _CORPUS, ({"text": t.joined} for t in targets(dataset)))
    for split in dataset.qrels:
        write_lines(folder / f"{split}.jsonl", map(_render, answered(dataset, split)))


def _render(example: Example) -> Record:
    positives = [t.joined for t in example.positives]
    return {"query": example.query, "pos": positives, "neg": [t.joined for t in example.negatives]}


FORMAT = Format(
    "flagembedding",
    f"JSON lines with query and pos, alone or in a folder with {_CORPUS}",
    fits=lambda source: bool(json_files(source, "query", "pos")),
    read=_read,
    write=_write,
    lacks=("ids", "titles", "answers", "grades", TWINS),
)
