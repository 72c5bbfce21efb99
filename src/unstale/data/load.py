"""From a name or a folder to a dataset."""

from pathlib import Path

from unstale.data.beir import read_beir
from unstale.data.dataset import RetrievalDataset
from unstale.data.docstrings import docstrings_folder
from unstale.errors import InputError

BUILTIN = {"docstrings": docstrings_folder}


def load_dataset(name_or_path: str, *, progress: bool = True) -> RetrievalDataset:
    """Read a BEIR folder, or build (once) and read a built-in set."""
    if name_or_path in BUILTIN:
        return read_beir(BUILTIN[name_or_path](), progress=progress)
    if not Path(name_or_path).is_dir():
        rule = f"neither a folder nor a built-in set ({', '.join(BUILTIN)})"
        raise InputError(f"cannot read the data {name_or_path!r}: {rule}")
    return read_beir(Path(name_or_path), progress=progress)
