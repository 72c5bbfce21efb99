"""Read and write big text files as streams; an error names the file, the line and the field."""

import codecs
import csv
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from unstale.budget import RECORD, lines_of, too_large
from unstale.errors import InputError
from unstale.shown import shown

Record = dict[str, Any]
_LOG = logging.getLogger(__name__)
_QUIET = 50_000_000  # bytes below which a file is read before a bar would be of use
_FEW = 50_000  # things below which a bar would be of no use
_PIECE = 2**20
# An array, or TriviaQA's object around one.
_OPENING, _BETWEEN = re.compile(r"\s*(?:\{\s*\"Data\"\s*:\s*)?\[[\s,]*"), re.compile(r"[\s,]*")
LEGACY = "cp1252"  # what Windows writes that is not UTF-8
BREAKS = re.compile(r"[\t\r\n]+")  # what a field divided by tabs cannot hold
csv.field_size_limit(RECORD)  # its own limit is 131,072


def text_lines(path: Path, progress: bool, *, legacy: bool = False) -> Iterator[tuple[int, str]]:
    """Yield `(line number, line)` with its end.

    `legacy`: a file whose first text that is not ASCII is not UTF-8 either is read as cp1252, as
    spreadsheets on Windows write it.
    """
    encoding = None if legacy else "utf-8"  # not known yet
    with _opened(path, progress) as (file, bar):
        for number, line in lines_of(file, path):
            bar.update(len(line))
            if encoding is None and not line.isascii():
                encoding = _encoding(line)
                if encoding == LEGACY and progress:
                    _LOG.warning("%s:%d: not UTF-8, so the file is read as cp1252", path, number)
            try:
                text = line.decode(encoding or "ascii")
            except UnicodeDecodeError as error:
                known = "UTF-8" if encoding != LEGACY else "UTF-8, nor cp1252"
                raise InputError(f"{path}:{number}: not {known} ({error})") from None
            yield number, text.removeprefix("\ufeff") if number == 1 else text


def _encoding(line: bytes) -> str:
    try:
        line.decode()
    except UnicodeDecodeError:
        return LEGACY
    return "utf-8"


def json_records(path: Path, progress: bool) -> Iterator[tuple[str, Record]]:
    """Yield `(FILE:LINE, object)` of JSON lines, or of one JSON array, whichever it is."""
    with _opened(path, progress=False) as (file, _):
        head = file.read(_PIECE).removeprefix(codecs.BOM_UTF8)
    array = _OPENING.match(head.decode("utf-8", errors="replace"))
    for number, record in (_array if array else _json_lines)(path, progress):
        if not isinstance(record, dict):
            raise InputError(f"{path}:{number}: expected a JSON object, found {show(record)}")
        yield f"{path}:{number}", record


def _json_lines(path: Path, progress: bool) -> Iterator[tuple[int, object]]:
    for number, line in text_lines(path, progress):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:  # bad JSON, or nested too deep
                raise InputError(f"{path}:{number}: not a JSON object ({error})") from None


def _array(path: Path, progress: bool) -> Iterator[tuple[int, object]]:
    """Parse the elements one by one: the array may be larger than memory, on one line or many."""
    decode = json.JSONDecoder().raw_decode
    utf8 = codecs.getincrementaldecoder("utf-8-sig")()
    before, text, line = _OPENING, "", 1
    with _opened(path, progress) as (file, bar):
        for piece in chain(iter(lambda: file.read(_PIECE), b""), [b""]):
            bar.update(len(piece))
            try:
                text, end = text + utf8.decode(piece, final=not piece), 0
            except UnicodeDecodeError as error:
                raise InputError(f"{path}, after line {line}: not UTF-8 ({error})") from None
            while True:
                start, place = end, before.match(text, end).end()  # type: ignore[union-attr]
                line += text.count("\n", start, place)
                before = _BETWEEN
                if text[place : place + 1] == "]":
                    return
                try:
                    record, end = decode(text, place)
                except (ValueError, RecursionError) as error:  # broken, or not yet read to its end
                    left = len(text) - place
                    if left > RECORD:
                        raise too_large(f"{path}:{line}", "one element of the array") from None
                    if left and not piece:
                        raise InputError(f"{path}:{line}: not a JSON object ({error})") from None
                    break
                yield line, record
                line += text.count("\n", place, end)
            text = text[place:]
        raise InputError(f"{path}:{line}: the array does not end")


def csv_rows(
    path: Path, progress: bool, delimiter: str = ",", *, legacy: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield `(number of the last line, fields)`; quoted fields may hold line ends.

    `legacy`: as spreadsheets write it, in cp1252 maybe; a blank line is a row without fields.
    """
    read = 0  # characters of the row

    def lines() -> Iterator[str]:
        nonlocal read
        for number, line in text_lines(path, progress, legacy=legacy):
            read += len(line)
            if read > RECORD:
                raise too_large(f"{path}:{number}", "the row that ends, or not, in this line")
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    try:
        for fields in reader:
            read = 0
            if fields or legacy:
                yield reader.line_num, fields
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}") from None


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records as JSON lines."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_array(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records as one JSON array, a line each."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        before = "[\n"
        for record in records:
            file.write(before + json.dumps(record, ensure_ascii=False))
            before = ",\n"
        file.write("[]\n" if before == "[\n" else "\n]\n")


def write_fields(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows of fields divided by tabs; tabs and line ends inside a field become spaces."""
    changed = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            fields = [str(field) for field in row]
            flat = [BREAKS.sub(" ", field) for field in fields]
            changed += flat != fields
            file.write("\t".join(flat) + "\n")
    if changed:
        _LOG.warning("%s: %d lines had tabs or line ends, now spaces", path.name, changed)


def write_csv(
    path: Path, names: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ","
) -> None:
    """Write a header and rows of fields, quoted where they must be."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(_Lines(file), delimiter=delimiter, lineterminator="\r\n")
        writer.writerows(chain([names], rows))


class _Lines:
    """A file for a csv writer: its lines end in a newline alone.

    The writer quotes what its own line end is made of, so only one with a carriage return quotes a
    carriage return in a text, which no reader takes otherwise.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix("\r\n") + "\n")


def count_bar(total: int, what: str, unit: str, progress: bool = True) -> "tqdm[Any]":
    """Make a bar over things that are counted and not read by the byte."""
    return tqdm(total=total, desc=what, unit=unit, disable=not progress or total < _FEW)


@contextmanager
def _opened(path: Path, progress: bool) -> Iterator[tuple[IO[bytes], "tqdm[Any]"]]:
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    size = path.stat().st_size
    quiet = not progress or size < _QUIET
    with (
        path.open("rb") as file,
        tqdm(total=size, unit="B", unit_scale=True, desc=shown(path.name), disable=quiet) as bar,
    ):
        yield file, bar


def string(record: Record, key: str, where: str) -> str:
    """Take a text out of a record."""
    return text(record.get(key), key, where)


def text(value: object, key: str, where: str) -> str:
    """Check that a value is a text."""
    if not isinstance(value, str):
        raise InputError(f"{where}: {key!r} must be a string, found {show(value)}")
    try:
        value.encode()  # a lone surrogate can be written in JSON but is not text
    except UnicodeEncodeError:
        raise InputError(f"{where}: {key!r} is not valid Unicode: {show(value)}") from None
    return value


def strings(value: object, key: str, where: str) -> list[str]:
    """Check that a value is a list of texts; one text is a list of one, nothing is none."""
    if value is None:
        return []
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise InputError(f"{where}: {key!r} must be a list of strings, found {show(value)}")
    return [text(v, key, where) for v in values]


def objects(record: Record, key: str, where: str) -> list[Record]:
    """Take a list of JSON objects out of a record; nothing is none."""
    values = record.get(key) or []
    if not isinstance(values, list) or not all(isinstance(v, dict) for v in values):
        raise InputError(f"{where}: {key!r} must be a list of objects, found {show(values)}")
    return values


def identifier(record: Record, key: str, where: str) -> str | None:
    """Take an id out of a record: a string or a whole number, or None where there is none."""
    value = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None if value is None or value == "" else text(value, key, where)


def show(value: object) -> str:
    """Quote a bad value, shortened, with control characters escaped."""
    quoted = ascii(value)
    return quoted if len(quoted) <= 80 else f"{quoted[:77]}..."
