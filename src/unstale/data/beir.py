"""Read a dataset from a BEIR folder: corpus.jsonl, queries.jsonl, qrels/<split>.tsv.

The files are read as streams, line by line, and every line is checked: an error names the file,
the line, the rule and the value.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.errors import InputError

_BATCH = 8192  # texts to one Arrow chunk


def read_beir(folder: Path, *, progress: bool = True) -> RetrievalDataset:
    """Read and check a whole BEIR folder."""
    if not folder.is_dir():
        raise InputError(f"no such data folder: {folder}")
    files = sorted((folder / "qrels").glob("*.tsv"))
    if not files:
        raise InputError(f"{folder / 'qrels'} has no .tsv file; BEIR keeps one a split there")
    target_rows, targets, _ = _read_texts(folder / "corpus.jsonl", progress)
    query_rows, queries, answers = _read_texts(folder / "queries.jsonl", progress)
    qrels = {file.stem: _read_qrels(file, query_rows, target_rows) for file in files}
    return RetrievalDataset(
        name=folder.resolve().name,
        target_ids=Texts.of(list(target_rows)),
        targets=targets,
        query_ids=Texts.of(list(query_rows)),
        queries=queries,
        qrels=qrels,
        answers=answers if any(answers) else None,
    )


def _read_texts(path: Path, progress: bool) -> tuple[dict[str, int], Texts, list[list[str]]]:
    """Read ids (to row numbers), texts (title and text joined as BEIR does) and answers."""
    rows: dict[str, int] = {}
    batches: list[pa.Array] = []
    batch: list[str] = []
    answers: list[list[str]] = []
    for number, record in _json_lines(path, progress):
        where = f"{path}:{number}"
        key = _string(record, "_id", where)
        if key in rows:
            raise InputError(f"{where}: duplicate _id {key!r}, first seen as row {rows[key]}")
        title = _string(record, "title", where) if record.get("title") else ""
        text = f"{title} {_string(record, 'text', where)}".strip()
        if not text:
            raise InputError(f"{where}: _id {key!r} has an empty text")
        rows[key] = len(rows)
        batch.append(text)
        answers.append(_answers(record, where))
        if len(batch) == _BATCH:
            batches.append(pa.array(batch, pa.large_string()))
            batch = []
    if not rows:
        raise InputError(f"{path} is empty")
    batches.append(pa.array(batch, pa.large_string()))
    return rows, Texts(pa.chunked_array(batches)), answers


def _json_lines(path: Path, progress: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield `(line number, object)`, skipping blank lines, with a bar over the bytes."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    size = path.stat().st_size
    quiet = not progress or size < 50_000_000
    with (
        path.open("rb") as lines,
        tqdm(total=size, unit="B", unit_scale=True, desc=path.name, disable=quiet) as bar,
    ):
        for number, line in enumerate(lines, 1):
            bar.update(len(line))
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, nested too deep
                raise InputError(f"{path}:{number}: not a JSON object in UTF-8 ({error})") from None
            if not isinstance(record, dict):
                raise InputError(f"{path}:{number}: expected a JSON object, found {_show(record)}")
            yield number, record


def _string(record: dict[str, Any], key: str, where: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise InputError(f"{where}: {key!r} must be a string, found {_show(value)}")
    try:
        value.encode()  # a lone surrogate can be written in JSON but is not text
    except UnicodeEncodeError:
        raise InputError(f"{where}: {key!r} is not valid Unicode: {_show(value)}") from None
    return value


def _answers(record: dict[str, Any], where: str) -> list[str]:
    metadata = record.get("metadata")
    answers = metadata.get("answers", []) if isinstance(metadata, dict) else []
    if not isinstance(answers, list) or not all(isinstance(a, str) for a in answers):
        raise InputError(f"{where}: 'metadata.answers' must be a list of strings: {_show(answers)}")
    return answers


def _read_qrels(path: Path, query_rows: dict[str, int], target_rows: dict[str, int]) -> Qrels:
    """Read one split; the header is BEIR's, or the file starts with data."""
    entries: dict[tuple[int, int], int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        where = f"{path}:{number}"
        try:
            fields = line.decode().rstrip("\r\n").split("\t")
        except UnicodeDecodeError as error:
            raise InputError(f"{where}: not UTF-8 ({error})") from None
        if fields == [""] or (number == 1 and fields[0] == "query-id"):
            continue
        if len(fields) != 3:
            rule = "expected query-id, corpus-id and score divided by tabs"
            raise InputError(f"{where}: {rule}, found {_show(fields)}")
        query, target, grade = fields
        if query not in query_rows:
            raise InputError(f"{where}: query-id {_show(query)} is not in queries.jsonl")
        if target not in target_rows:
            raise InputError(f"{where}: corpus-id {_show(target)} is not in corpus.jsonl")
        try:
            value = int(grade)
        except ValueError:
            raise InputError(f"{where}: score must be a whole number: {_show(grade)}") from None
        if entries.setdefault((query_rows[query], target_rows[target]), value) != value:
            raise InputError(f"{where}: {query!r}, {target!r} was judged before, otherwise")
    if not any(grade > 0 for grade in entries.values()):
        raise InputError(f"{path} holds no relevant pair (a score above 0)")
    table = np.array([(q, t, g) for (q, t), g in entries.items()], np.int64)
    return Qrels(query=table[:, 0], target=table[:, 1], grade=table[:, 2])


def _show(value: object) -> str:
    """Quote a bad value, shortened, with control characters escaped."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
