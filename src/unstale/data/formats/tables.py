"""Plain tables, csv, jsonl or parquet: one file a split, and a corpus file if there is one."""

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import pyarrow.parquet as pq

from unstale.budget import lines_of
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats import columns
from unstale.data.formats.arrow import open_parquet
from unstale.data.formats.format import Format, Location, splits_of
from unstale.data.formats.reading import BLANK, Reading
from unstale.data.gather import Example, gather
from unstale.data.lines import csv_rows, json_records, write_csv, write_lines
from unstale.errors import InputError

_SEPARATORS = (",", ";", "\t", "|")


def _read_csv(path: Path, progress: bool, reading: Reading) -> columns.Rows:
    names: list[str] = []
    separator = _separator(path)
    if separator != ("\t" if path.suffix == ".tsv" else ","):
        reading.how.append(f"separated by {separator!r}")
    for line, fields in csv_rows(path, progress, separator, legacy=True):
        where = f"{path}:{line}"
        if not any(map(str.strip, fields)):
            reading.rows += bool(names)
            reading.skip(BLANK, where)
        elif not names:
            names = fields
        elif len(fields) != len(names):
            reading.rows += 1
            rule = f"expected {len(names)} fields as in the header, found {len(fields)}"
            reading.skip(rule, where)
        else:
            yield where, dict(zip(names, fields, strict=True))


def _separator(path: Path) -> str:
    """Find the separator that gives the header the most cells: a comma (tsv: a tab) if in doubt."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    with path.open("rb") as file:
        head = next((line for _, line in lines_of(file, path) if line.strip()), b"")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path} is UTF-16; expected UTF-8: save it anew as `CSV UTF-8`")
    header = re.sub(r'"[^"]*"', "", head.decode("utf-8-sig", errors="replace"))
    usual = "\t" if path.suffix == ".tsv" else ","
    known = sorted(_SEPARATORS, key=lambda separator: separator != usual)
    return max(known, key=header.count)


def _read_jsonl(path: Path, progress: bool, _: Reading) -> columns.Rows:
    return json_records(path, progress)


def _write_jsonl(path: Path, names: list[str], cells: columns.Cells) -> None:
    # With nulls: readers such as `datasets` take the columns of the first lines for all.
    write_lines(path, (dict(zip(names, row, strict=True)) for row in cells))


def _read_parquet(path: Path, progress: bool, _: Reading) -> columns.Rows:
    file = open_parquet(path)
    return columns.arrow_rows(file.iter_batches(4096), file.metadata.num_rows, str(path), progress)


@final
@dataclass(frozen=True)
class _Table:
    name: str
    suffixes: tuple[str, ...]  # the first is written
    read_rows: Callable[[Path, bool, Reading], columns.Rows]
    write_rows: Callable[[Path, list[str], columns.Cells], None]
    loose: bool = False  # each row has columns of its own

    @property
    def format(self) -> Format:
        needed = ("query", "positive")
        named = " and ".join(f"a column {' or '.join(columns.ROLES[r])}" for r in needed)
        others = "or with others, named as PATH:query=COLUMN,positive=COLUMN"
        about = f"{self.name} with {named}, {others}"
        return Format(
            self.name,
            about,
            self._files,
            self._read,
            self._write,
            columns.LACKS,
            splits=self._splits,
        )

    @property
    def _corpus(self) -> str:
        return f"corpus{self.suffixes[0]}"

    def _files(self, at: Location) -> list[Path]:
        """List the files with columns for a query and a positive; all, if columns are named.

        A file that was named itself is one, so that what is wrong with it is said by its reader.
        """
        if at.path.is_file():
            return at.files(*self.suffixes)
        files = [file for file in at.files(*self.suffixes) if file.name != self._corpus]
        return [file for file in files if at.columns or self._has_columns(file)]

    def _has_columns(self, file: Path) -> bool:
        try:
            where, row = next(self.read_rows(file, False, Reading()), ("", {}))
            columns.RowReader(where, {}, alone=False).assign(row)
        except InputError:
            return False
        return True

    def _read(self, at: Location) -> RetrievalDataset:
        corpus, reading = at.corpus(self._corpus), Reading(strict=at.strict)
        rows = self.read_rows(corpus, at.progress, Reading()) if corpus else iter(())
        gathered = gather(self._examples(at, reading), columns.corpus_targets(rows), by_text=True)
        return reading.finish(gathered, at.name, at.place, tell=at.progress)

    def _examples(self, at: Location, reading: Reading) -> Iterator[tuple[str, str, Example]]:
        for split, parts in splits_of(self._files(at) or [at.path]).items():
            for file in parts:
                yield from self._of_file(at, split, file, reading)

    def _of_file(
        self, at: Location, split: str, file: Path, reading: Reading
    ) -> Iterator[tuple[str, str, Example]]:
        reader = columns.RowReader(
            str(file), at.columns, loose=self.loose, alone=at.path.is_file(), reading=reading
        )
        return reader.read(split, self.read_rows(file, at.progress, reading))

    def _splits(self, at: Location) -> list[str]:
        found = splits_of(self._files(at) or [at.path])
        for split, (file, *_) in found.items():
            first = next(self._of_file(at, split, file, Reading()), None)
            if first is None:  # the reading would say the same of every split
                raise InputError(f"{file} has no row with a query and a positive")
        return list(found)

    def _write(self, dataset: RetrievalDataset, folder: Path) -> None:
        self.write_rows(folder / self._corpus, *columns.corpus_table(dataset))
        for split in dataset.qrels:
            path = folder / f"{split}{self.suffixes[0]}"
            self.write_rows(path, *columns.split_table(dataset, split))


_write_parquet = partial(columns.write_arrow, open_writer=pq.ParquetWriter)

_CSV = _Table("csv", (".csv", ".tsv"), _read_csv, write_csv)
_JSONL = _Table("jsonl", (".jsonl", ".json"), _read_jsonl, _write_jsonl, loose=True)
_PARQUET = _Table("parquet", (".parquet",), _read_parquet, _write_parquet)
_TABLES = {suffix: table for table in (_CSV, _JSONL, _PARQUET) for suffix in table.suffixes}
CSV, JSONL, PARQUET = _CSV.format, _JSONL.format, _PARQUET.format


def table_rows(path: Path, progress: bool, reading: Reading) -> columns.Rows:
    """Yield `(where, row)` of a table, whatever its columns mean; the suffix tells its format."""
    if path.suffix.lower() not in _TABLES:
        raise InputError(f"{path} is not a table; expected one of {', '.join(_TABLES)}")
    return _TABLES[path.suffix.lower()].read_rows(path, progress, reading)
