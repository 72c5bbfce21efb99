"""From a name or a folder to a dataset."""

from dataclasses import replace
from pathlib import Path

from unstale.data.beir import read_beir
from unstale.data.dataset import RetrievalDataset
from unstale.data.docstrings import docstrings_folder
from unstale.data.facts import facts_folder
from unstale.errors import InputError

BUILTIN = {"docstrings": docstrings_folder, "facts": facts_folder}


def load_dataset(name_or_path: str, *, progress: bool = True) -> RetrievalDataset:
    """Read a BEIR folder, or build (once) and read a built-in set.

    `docstrings` is made of the standard library and some packages; `docstrings:numpy,rich` names
    others. `facts` is a made-up world of questions and answers.
    """
    name, _, choice = name_or_path.partition(":")
    if name == "docstrings" and choice:
        folder = docstrings_folder(choice.split(","))
        return replace(read_beir(folder, progress=progress), name=name_or_path)
    if name_or_path in BUILTIN:
        folder = BUILTIN[name_or_path]()
        return replace(read_beir(folder, progress=progress), name=name_or_path)
    if not Path(name_or_path).is_dir():
        rule = f"neither a folder nor a built-in set ({', '.join(BUILTIN)})"
        raise InputError(f"cannot read the data {name_or_path!r}: {rule}")
    return read_beir(Path(name_or_path), progress=progress)
