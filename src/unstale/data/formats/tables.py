"""Plain tables, csv, jsonl or parquet: one file a split, and a corpus file if there is one."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyarrow.parquet as pq

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.columns import (
    CORPUS,
    LACKS,
    ROLES,
    RowReader,
    assign,
    batches,
    corpus_rows,
    header,
    plain_rows,
    rows,
    schema,
)
from unstale.data.formats.examples import gather, parse_target
from unstale.data.formats.format import Format, Source, splits_of
from unstale.data.formats.walk import write_csv, write_lines
from unstale.data.gather import Example, Target
from unstale.data.lines import count_bar, csv_rows, json_records
from unstale.errors import InputError

Rows = Iterator[tuple[str, dict[str, Any]]]  # where, row


def _read_csv(path: Path, progress: bool) -> Rows:
    names: list[str] = []
    for line, fields in csv_rows(path, progress, "\t" if path.suffix == ".tsv" else ","):
        if not names:
            names = fields
        elif len(fields) != len(names):
            rule = f"expected {len(names)} fields as in the header, found {len(fields)}"
            raise InputError(f"{path}:{line}: {rule}")
        else:
            yield f"{path}:{line}", dict(zip(names, fields, strict=True))


def _write_csv(path: Path, names: list[str], table: Iterable[list[str | None]]) -> None:
    write_csv(path, chain([names], table))


def _read_jsonl(path: Path, progress: bool) -> Rows:
    for line, record in json_records(path, progress):
        yield f"{path}:{line}", record


def _write_jsonl(path: Path, names: list[str], table: Iterable[list[str | None]]) -> None:
    # With nulls: readers such as `datasets` take the columns of the first lines for all.
    write_lines(path, (dict(zip(names, row, strict=True)) for row in table))


def _read_parquet(path: Path, progress: bool) -> Rows:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, ValueError, OSError) as error:  # a column's name may be no UTF-8
        raise InputError(f"{path} is not a parquet file ({error})") from None
    row = 0
    with count_bar(file.metadata.num_rows, path.name, "row", progress) as bar:
        for records in plain_rows(file.iter_batches(4096), str(path)):
            for record in records:
                row += 1
                yield f"{path}, row {row}", record
            bar.update(len(records))


def _write_parquet(path: Path, names: list[str], table: Iterable[list[str | None]]) -> None:
    with pq.ParquetWriter(path, schema(names)) as writer:
        for batch in batches(names, table):
            writer.write_batch(batch)


@final
@dataclass(frozen=True)
class _Table:
    """A kind of file that holds rows."""

    suffixes: tuple[str, ...]  # the first is written
    read_rows: Callable[[Path, bool], Rows]
    write_rows: Callable[[Path, list[str], Iterable[list[str | None]]], None]
    loose: bool = False  # each row has columns of its own

    @property
    def corpus(self) -> str:
        return f"corpus{self.suffixes[0]}"

    def fits(self, source: Source) -> bool:
        return bool(self.files(source))

    def files(self, source: Source) -> list[Path]:
        """List the files with columns for a query and a positive; all, if columns are named."""
        files = [file for file in source.files(*self.suffixes) if file.name != self.corpus]
        return [file for file in files if source.columns or self._has_columns(file)]

    def _has_columns(self, file: Path) -> bool:
        try:
            where, row = next(self.read_rows(file, False), ("", {}))
            assign(list(row), {}, where)
        except InputError:
            return False
        return True

    def read(self, source: Source) -> RetrievalDataset:
        found = gather(self._examples(source), self._targets(source), by_text=True)
        return found.dataset(source.name)

    def _examples(self, source: Source) -> Iterator[tuple[str, str, Example]]:
        for split, parts in splits_of(self.files(source) or [source.path]).items():
            for file in parts:
                reader = RowReader(str(file), source.columns, loose=self.loose)
                for where, example in reader.read(self.read_rows(file, source.progress)):
                    yield split, where, example

    def _targets(self, source: Source) -> Iterator[tuple[str, Target]]:
        file = source.corpus(self.corpus)
        for where, row in self.read_rows(file, source.progress) if file else ():
            yield where, parse_target(row, where, "id")

    def write(self, dataset: RetrievalDataset, folder: Path) -> None:
        self.write_rows(folder / self.corpus, CORPUS, corpus_rows(dataset))
        for split in dataset.qrels:
            path = folder / f"{split}{self.suffixes[0]}"
            self.write_rows(path, header(dataset, split), rows(dataset, split))


def _format(name: str, table: _Table) -> Format:
    columns = " and ".join(f"a column {' or '.join(ROLES[r])}" for r in ("query", "positive"))
    about = f"{name} with {columns}, or with others, named as PATH:query=COLUMN,positive=COLUMN"
    return Format(name, about, table.fits, table.read, table.write, LACKS)


CSV = _format("csv", _Table((".csv", ".tsv"), _read_csv, _write_csv))
JSONL = _format("jsonl", _Table((".jsonl", ".json"), _read_jsonl, _write_jsonl, loose=True))
PARQUET = _format("parquet", _Table((".parquet",), _read_parquet, _write_parquet))
