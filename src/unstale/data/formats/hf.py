"""Hugging Face `datasets`: a folder of `save_to_disk`, or a name on the hub.

`hf:owner/name/config` names a configuration, too. Columns as `columns.py` says; a corpus, if there
is one, is a dataset saved in the folder `corpus` beside the splits.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats import columns
from unstale.data.formats.format import Format, Location
from unstale.data.formats.reading import Reading
from unstale.data.gather import Example, Target, gather
from unstale.data.lines import show, text
from unstale.errors import InputError
from unstale.files import scratch_beside
from unstale.hub import WHAT_TO_DO, hub_answers, is_hub_name

_MARKS = ("dataset_dict.json", "state.json")  # of a folder that `save_to_disk` wrote


def _fits(source: Location) -> bool:
    if source.path.exists():
        return any(source.beside(mark) for mark in _MARKS)
    return "/" in source.place and is_hub_name(source.place, 3)


def _read(source: Location) -> RetrievalDataset:
    splits = _open(source.place)
    corpus = source.path / "corpus"
    parts = _open(str(corpus)).values() if corpus.is_dir() else ()
    rows = chain.from_iterable(_rows(part, str(corpus), source.progress) for part in parts)
    reading = Reading(strict=source.strict)
    examples = _examples(splits, source, reading)
    found = gather(examples, columns.corpus_targets(rows), by_text=True)
    name = source.name if source.path.exists() else source.place
    return reading.finish(found, name, source.place, tell=source.progress)


def from_columns(
    part: Any,  # noqa: ANN401 - a `datasets.Dataset`; other kinds are refused
    corpus: Iterable[str] = (),
    chosen: Mapping[str, str] | None = None,
    *,
    progress: bool = True,
) -> tuple[RetrievalDataset, columns.Columns]:
    """Make a dataset with the split `train` of rows in memory, and say which columns it read.

    Args:
        part: The rows: a query, a positive, and maybe negatives.
        corpus: Texts to add to those of the rows; the same text is the same target.
        chosen: Which column plays which role, where its name does not say so.
    """
    from datasets import Dataset

    name = "the training set"
    if not isinstance(part, Dataset):
        rule = 'expected a datasets.Dataset, of several splits one: train_dataset["train"]'
        raise InputError(f"{name} is of type {type(part).__name__}; {rule}")
    if isinstance(corpus, str):
        raise InputError(f"corpus must be a list of texts, found one text: {show(corpus)}")
    reading = Reading()
    reader = columns.RowReader(name, chosen or {}, 'columns={{"{}": COLUMN}}', reading=reading)
    roles = reader.assign(part.column_names)
    rows = _rows(part.select_columns(roles.names), name, progress)
    gathered = gather(reader.read("train", rows), _texts(corpus), by_text=True)
    data = reading.finish(gathered, name, name, tell=bool(reading.skipped) and progress)
    return data, reader.without(roles)


def _texts(corpus: Iterable[object]) -> Iterator[tuple[str, Target]]:
    for number, value in enumerate(corpus, 1):
        where = f"the corpus, text {number}"
        if not (found := text(value, "corpus", where)).strip():
            raise InputError(f"{where}: the text is empty")
        yield where, Target(None, "", found)


def _open(place: str) -> dict[str, Any]:
    from datasets import Dataset, load_dataset, load_from_disk

    try:
        if any((Path(place) / mark).is_file() for mark in _MARKS):
            found = load_from_disk(place)
        elif Path(place).exists():
            found = load_dataset(place)
        else:
            hub_answers()  # or its library is told not to try for minutes
            owner, name, config = [*place.split("/"), None][:3]
            found = load_dataset(f"{owner}/{name}", config)
    except Exception as error:  # of many kinds: the network, the hub, the files
        reason = str(error).strip().partition("\n")[0]
        rule = "" if Path(place).exists() or hub_answers() else f": {WHAT_TO_DO}"
        raise InputError(f"cannot load the dataset {place!r}{rule} ({reason})") from None
    if isinstance(found, Dataset):
        return {str(found.split or "train"): found}
    return {str(split): part for split, part in found.items()}


def _examples(
    splits: dict[str, Any], source: Location, reading: Reading
) -> Iterator[tuple[str, str, Example]]:
    for split, part in splits.items():
        name = f"{source.place}, split {split}"
        reader = columns.RowReader(name, source.columns, reading=reading)
        part = part.select_columns(reader.assign(part.column_names).names)
        yield from reader.read(split, _rows(part, name, source.progress))


def _rows(part: Any, name: str, progress: bool) -> columns.Rows:  # noqa: ANN401
    """Yield `(where, row)`, read from the memory-mapped table in batches."""
    return columns.arrow_rows(part.with_format("arrow").iter(4096), len(part), name, progress)


def _write(dataset: RetrievalDataset, folder: Path) -> None:
    from datasets import DatasetDict

    with scratch_beside(folder) as scratch:
        parts = {
            split: _on_disk(scratch / f"{i}.arrow", *columns.split_table(dataset, split))
            for i, split in enumerate(dataset.qrels)
        }
        DatasetDict(parts).save_to_disk(str(folder))
        corpus = _on_disk(scratch / "corpus.arrow", *columns.corpus_table(dataset))
        corpus.save_to_disk(str(folder / "corpus"))


def _on_disk(path: Path, names: list[str], cells: columns.Cells) -> Any:  # noqa: ANN401
    from datasets import Dataset

    columns.write_arrow(path, names, cells, pa.ipc.new_stream)
    return Dataset.from_file(str(path))


FORMAT = Format(
    "hf",
    "a folder of datasets' save_to_disk, or a name on the Hugging Face hub, OWNER/NAME",
    fits=_fits,
    read=_read,
    write=_write,
    lacks=columns.LACKS,
)
