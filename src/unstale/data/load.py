"""From a name or a path to a dataset, in whatever format it is."""

import logging
from collections.abc import Collection
from dataclasses import replace

from unstale.data.dataset import RetrievalDataset
from unstale.data.docstrings import docstrings_folder, package_versions
from unstale.data.facts import facts_folder
from unstale.data.formats import FORMATS
from unstale.data.formats.beir import read_beir
from unstale.data.formats.format import Format, Location
from unstale.data.names import check_name, split_name
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
BUILTIN = {"docstrings": docstrings_folder, "facts": facts_folder}


def load_dataset(
    name: str, *, progress: bool = True, judged: bool = True, strict: bool = False
) -> RetrievalDataset:
    """Read data in any format, or build (once) and read a built-in set.

    `docstrings` is made of the standard library and some packages; `docstrings:numpy,rich` names
    others. `facts` is a made-up world of questions and answers. Anything else is
    `[FORMAT:]PLACE[:ROLE=COLUMN,...]`: a file, a folder or a name on the hub, a format if it is not
    to be found out, and the roles of columns if their names do not tell.

    Args:
        name: What to read.
        progress: Show progress bars, and say what was read.
        judged: Whether there must be judgements. Otherwise a BEIR folder may lack qrels, or even
            queries.
        strict: Refuse blank rows, rows with an empty cell and exact duplicates in a table. They
            are skipped and counted otherwise.
    """
    builtin, _, choice = name.partition(":")
    if name in BUILTIN or builtin == "docstrings":
        folder = docstrings_folder(choice.split(",")) if choice else BUILTIN[builtin]()
        return replace(read_beir(folder, progress=progress), name=name, source=name)
    check_name(name)
    chosen, place, columns = split_name(name)
    source = Location(place, columns, progress, judged, strict)
    if chosen is not None:
        found = FORMATS[chosen]
    else:
        found = _detect(source)
        if progress and not source.path.is_file():
            _LOG.warning("%s: read as %s, %s", source.place, found.name, found.about)
    return replace(found.read(source), source=name)


def peek_splits(name: str, *, judged: bool = True) -> Collection[str] | None:
    """Name the splits of data on this disk by a look at its files, and refuse what is none.

    A wrong format or a wrong column is found here, before anything else is loaded. None stands for
    data whose splits only a reading tells.
    """
    builtin, _, choice = name.partition(":")
    if builtin in BUILTIN:
        if choice:
            package_versions(choice.split(","))  # refuses what is not installed
        return ("train", "dev", "test") if builtin == "docstrings" else None
    chosen, place, columns = split_name(name)
    source = Location(place, columns, progress=False, judged=judged)
    if not source.path.exists():  # on the hub
        return None
    logging.disable()  # the reading will say the same
    try:
        found = FORMATS[chosen] if chosen else _detect(source)
        return found.splits(source) if found.splits else None
    finally:
        logging.disable(logging.NOTSET)


def _detect(source: Location) -> Format:
    """Find the format that fits, or list what was looked for."""
    for found in FORMATS.values():
        if found.fits(source):
            return found
    path = source.path
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise InputError(f"{path} is a spreadsheet: save the sheet as .csv")
    looked = "\n".join(f"  {form.name}: {form.about}" for form in FORMATS.values())
    inside = sorted(p.name for p in path.iterdir())[:8] if path.is_dir() else [path.name]
    raise InputError(f"no format fits {path} ({', '.join(inside)}); looked for\n{looked}")
