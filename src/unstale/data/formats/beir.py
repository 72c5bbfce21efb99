"""BEIR: corpus.jsonl, queries.jsonl, and qrels/SPLIT.tsv. Nothing of a dataset is lost in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from unstale.data import lines
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.format import Format, Location
from unstale.data.formats.walk import check_ids, judgements, queries, targets
from unstale.data.gather import Gatherer, Judged, parse_target
from unstale.data.lines import Record
from unstale.errors import InputError

_HEADER = ("query-id", "corpus-id", "score")


def read_beir(folder: Path, *, progress: bool = True, judged: bool = True) -> RetrievalDataset:
    """Read and check a whole BEIR folder; unless `judged`, the corpus alone will do."""
    if not folder.is_dir():
        raise InputError(f"no such data folder: {folder}")
    files = qrels_files(folder, judged=judged)
    gatherer = Gatherer()
    for where, record in lines.json_records(folder / "corpus.jsonl", progress):
        lines.string(record, "_id", where)  # required here, and a string
        gatherer.corpus(parse_target(record, where, "_id"), where)
    asked = folder / "queries.jsonl"
    for where, record in lines.json_records(asked, progress) if judged or asked.exists() else ():
        text, id = lines.string(record, "text", where), lines.string(record, "_id", where)
        gatherer.new_query(text, id, where, _answers(record, where))
    for file in files:
        gatherer.judge_lines(file.stem, str(file), _qrels(file, progress))
    return gatherer.dataset(folder.resolve().name, asked=judged)


def _answers(record: Record, where: str) -> list[str]:
    metadata = record.get("metadata")
    answers = metadata.get("answers") if isinstance(metadata, dict) else None
    return lines.strings(answers, "metadata.answers", where)


def _qrels(path: Path, progress: bool) -> Iterator[Judged]:
    """Yield the fields of each line; the header is BEIR's, or the file starts with data."""
    for number, line in lines.text_lines(path, progress):
        fields = tuple(line.rstrip("\r\n").split("\t"))
        if fields == ("",) or (number == 1 and fields[0] == _HEADER[0]):
            continue
        if len(fields) != 3:
            rule = f"expected {', '.join(_HEADER)} divided by tabs"
            raise InputError(f"{path}:{number}: {rule}, found {lines.show(fields)}")
        yield number, *fields


def write_beir(dataset: RetrievalDataset, folder: Path) -> None:
    """Write a dataset as a BEIR folder."""
    check_ids(dataset)
    write_parts(
        folder,
        ({"_id": t.id, "title": t.title, "text": t.text} for t in targets(dataset)),
        (
            {"_id": q.id, "text": q.text, "metadata": {"answers": q.answers} if q.answers else {}}
            for q in queries(dataset)
        ),
        {split: judgements(dataset, split) for split in dataset.qrels},
    )


def write_parts(
    folder: Path,
    corpus: Iterable[Record],
    queries: Iterable[Record],
    qrels: Mapping[str, Iterable[Sequence[object]]],
) -> None:
    """Write the records of the corpus and of the queries, and the judgements of each split."""
    lines.write_lines(folder / "corpus.jsonl", corpus)
    lines.write_lines(folder / "queries.jsonl", queries)
    (folder / "qrels").mkdir()
    for split, judged in qrels.items():
        lines.write_fields(folder / "qrels" / f"{split}.tsv", chain([_HEADER], judged))


def _fits(source: Location) -> bool:
    parts = ("corpus.jsonl", "queries.jsonl", "qrels")
    alone = [file.name for file in source.files(".jsonl")] == ["corpus.jsonl"]
    there = sum((source.path / part).exists() for part in parts)
    return there >= 2 or (alone and not source.judged)


def _splits(source: Location) -> list[str]:
    needed = ["corpus.jsonl", *(["queries.jsonl"] if source.judged else [])]
    if missing := [name for name in needed if not source.beside(name)]:
        raise InputError(f"{source.path} has no {missing[0]}: {FORMAT.name} is {FORMAT.about}")
    return [file.stem for file in qrels_files(source.path, judged=source.judged)]


def qrels_files(folder: Path, *, judged: bool = True) -> list[Path]:
    """List the files of judgements, one a split."""
    files = sorted((folder / "qrels").glob("*.tsv"))
    if judged and not files:
        raise InputError(f"{folder / 'qrels'} has no .tsv file; BEIR keeps one a split there")
    return files


FORMAT = Format(
    "beir",
    "a folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv",
    fits=_fits,
    read=lambda source: read_beir(source.path, progress=source.progress, judged=source.judged),
    write=write_beir,
    check=check_ids,
    splits=_splits,
)
