"""Names of data, taken apart before anything is imported that reads it."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, final

from unstale.errors import InputError
from unstale.hub import is_hub_name

_COLUMNS = re.compile(r":(\w+=[^,:=]+(?:,\w+=[^,:=]+)*)$")
BUILTIN_NAMES = ("docstrings", "facts")
FORMAT_NAMES = {  # in the order in which they are tried, with their places in `data.formats`
    "beir": "beir.FORMAT", "msmarco": "msmarco.FORMAT", "hf": "hf.FORMAT", "dpr": "toolkits.DPR",
    "fid": "toolkits.FID", "tevatron": "toolkits.TEVATRON",
    "tevatron-inline": "toolkits.TEVATRON_INLINE", "flagembedding": "flagembedding.FORMAT",
    "csv": "tables.CSV", "jsonl": "tables.JSONL", "parquet": "tables.PARQUET",
    "ir_datasets": "ir_datasets.FORMAT",
}  # fmt: skip
HELD_OUT = ("test", "dev")  # splits that can be held out, in the order in which they are drawn
NAMED = ("hf", "ir_datasets")  # formats of what need not be a path


@final
class DataName(NamedTuple):
    """`[FORMAT:]PLACE[:ROLE=COLUMN,...]`, taken apart."""

    format: str | None
    place: str
    columns: dict[str, str]

    @property
    def on_hub(self) -> bool:
        """Tell whether it names a dataset of the hub, unless there is such a path."""
        return self.format == "hf" or (self.format is None and "/" in self.place)


def split_name(name: str) -> DataName:
    """Take a name of data apart: its format, if it says one, where to read, and roles of columns.

    Example:
        >>> split_name("csv:pairs.csv:query=title,positive=body")
        DataName(format='csv', place='pairs.csv', columns={'query': 'title', 'positive': 'body'})
    """
    found = _COLUMNS.search(name)
    columns = dict(part.split("=", 1) for part in found.group(1).split(",")) if found else {}
    place = name[: found.start()] if found else name
    prefix, colon, rest = place.partition(":")
    if colon and prefix in FORMAT_NAMES:
        return DataName(prefix, rest, columns)
    return DataName(None, place, columns)


def check_name(name: str) -> None:
    """Refuse data that is no file, no folder, no built-in set and no name on the hub."""
    if name.partition(":")[0] in BUILTIN_NAMES:
        return
    form, place, _ = split_name(name)
    if form in NAMED or Path(place).exists():
        return
    if form is None and "/" in place and is_hub_name(place, 3):
        return
    rule = f"there is no such file or folder, and no built-in set ({', '.join(BUILTIN_NAMES)})"
    raise InputError(f"cannot read the data {place!r}: {rule}{_nearest(place)}")


def missing_splits(data: str, has: Collection[str], wanted: str, share: float) -> list[str]:
    """List those of some splits, separated by commas, that are to be held out; or refuse them."""
    missing = [name for name in map(str.strip, wanted.split(",")) if name not in has]
    for name in missing:
        if name not in HELD_OUT or "train" not in has:
            raise InputError(f"{data} has no split {name!r}; it has {', '.join(sorted(has))}")
    if missing and not share:
        rule = "--holdout 0.1 takes a tenth of the training queries for it"
        raise InputError(f"{data} has no split {missing[0]!r}; {rule}")
    return missing


def _nearest(place: str) -> str:
    """Say which name was meant, where a path is wrong at its end."""
    folder = Path(place).parent
    if not folder.is_dir():
        return f"; the folder {str(folder)!r} does not exist"
    close = get_close_matches(Path(place).name, [path.name for path in folder.iterdir()], 1)
    return f"; did you mean {str(folder / close[0])!r}?" if close else ""
