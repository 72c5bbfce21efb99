"""Read formats whose files hold one query a record, with its positives and its negatives."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from unstale.data.formats.format import Source, splits_of
from unstale.data.gather import Example, Gatherer, Target
from unstale.data.lines import identifier, json_records, string
from unstale.errors import InputError

Record = dict[str, Any]


def json_files(source: Source, *keys: str) -> list[Path]:
    """List the JSON files of a source whose first record has all of some keys."""
    return [f for f in source.files(".json", ".jsonl") if set(keys) <= _first(f).keys()]


def _first(file: Path) -> Record:
    """Return the first record of a JSON file, or an empty one if it has none."""
    try:
        return next(json_records(file, progress=False), (0, {}))[1]
    except InputError:
        return {}


def json_examples(
    files: list[Path], parse: Callable[[Record, str], Example], progress: bool
) -> Iterator[tuple[str, str, Example]]:
    """Yield `(split, where, example)` of JSON files."""
    if not files:
        raise InputError("no JSON file there holds examples in this format")
    for split, parts in splits_of(files).items():
        for file in parts:
            for line, record in json_records(file, progress):
                where = f"{file}:{line}"
                yield split, where, parse(record, where)


def json_targets(file: Path | None, progress: bool, *id_keys: str) -> Iterator[tuple[str, Target]]:
    """Yield `(where, target)` of a corpus of JSON records; nothing if there is no file."""
    if file is not None:
        for line, record in json_records(file, progress):
            where = f"{file}:{line}"
            yield where, parse_target(record, where, *id_keys)


def parse_target(record: Record, where: str, *id_keys: str) -> Target:
    """Make a target of a record with `title` and `text`; its id is the first that there is."""
    ids = (identifier(record, key, where) for key in id_keys)
    title = string(record, "title", where) if record.get("title") else ""
    id = next((id for id in ids if id is not None), None)
    return Target(id, title, string(record, "text", where))


def gather(
    examples: Iterable[tuple[str, str, Example]],
    corpus: Iterable[tuple[str, Target]] = (),
    *,
    by_text: bool = False,
) -> Gatherer:
    """Collect the corpus, if there is one, then the examples.

    `by_text`: the examples name their targets by text, and not by id.
    """
    gatherer = Gatherer()
    for where, target in corpus:
        gatherer.corpus(target, where, by_text=by_text)
    for split, where, example in examples:
        gatherer.example(split, example, where)
    return gatherer
