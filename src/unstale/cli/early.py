"""What can be known to be wrong from flags, folders and names alone, before torch is imported."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from unstale.cli.config import CONFIG, paths_read, place_of, written_by
from unstale.cli.flags import flag_values
from unstale.cli.options import OutputFlags
from unstale.data.names import FORMAT_NAMES, check_name, split_name
from unstale.declare import parse_seeds
from unstale.encoders.packaged import check_model, packaged_model
from unstale.errors import InputError
from unstale.hub import check_reachable
from unstale.settings import STRATEGIES
from unstale.training.arguments import check_names
from unstale.written import LIST, LOCK, foreign, is_temporary

_MODELS = ("model", "old_model", "retriever", "reader", "cross_encoder")
_RUNS = ("search", "serve", "answer")  # commands that need a finished run
_OPTIONAL = ("doctor", "experiment")  # commands that need no --output


def check_early(command: str, chosen: Any) -> None:  # noqa: ANN401 - a dataclass of options
    """Refuse what cannot work; where the hub is needed, see whether it is there."""
    values = flag_values(chosen)
    if isinstance(chosen, OutputFlags) and (chosen.output or command not in _OPTIONAL):
        check_output(chosen)
    for name in (str(values[key]) for key in ("data",) if values.get(key)):
        check_name(name)
    for name in (str(values[key]) for key in _MODELS if values.get(key)):
        check_model(name)
    _check_choices(command, values)
    for key in ("corpus", "buffer", "vectors", "path"):
        named = str(values.get(key) or "")
        if named and "://" not in named and not place_of(named).exists():
            what = " is not a buffer" if key == "buffer" else ""
            raise InputError(f"{values[key]}{what}: there is no such file or folder")
    if values.get("run") and not Path(values["run"]).is_dir():
        raise InputError(f"there is no run folder {values['run']!r}")
    if command in _RUNS:
        check_run(values["run"])
    if "seeds" in values:
        parse_seeds(values["seeds"])
    check_names(values.get("trainer") or {})
    for key in _MODELS:
        if values.get(key) and _asks_hub(str(values[key])):
            check_reachable(str(values[key]), key.replace("_", "-"))
    data = split_name(str(values.get("data") or "docstrings"))
    if data.on_hub and _asks_hub(data.place):
        check_reachable(data.place, "dataset")


def check_run(path: str) -> Path:
    """Return the folder that has the flags of a finished run: of a comparison's cell, its own."""
    folder = owner = Path(path)
    if not (folder / "model").is_dir():
        cells = sorted(str(path.parent) for path in (folder / "cells").glob("*/model"))
        if cells:
            rule = f"name one of its cells, e.g. {cells[0]}"
            raise InputError(f"{folder} is a comparison; {rule}")
        raise InputError(f"{folder} is not a finished training run (no model/)")
    if not (folder / CONFIG).is_file() and folder.resolve().parent.name == "cells":
        owner = folder.resolve().parent.parent
    if not (owner / CONFIG).is_file():
        raise InputError(f"{folder} is not a finished training run (no {CONFIG})")
    return owner


def check_output(chosen: OutputFlags) -> None:
    """Refuse a folder that holds something else, or what the command is about to read."""
    if not chosen.output:
        raise InputError("--output is required: a folder for the results")
    folder, overwrite, resume = Path(chosen.output), chosen.overwrite, resumes(chosen)
    for part in (folder, *folder.parents):
        if part.is_symlink() and not part.exists():
            raise InputError(f"--output {folder} cannot be a folder: {part} is a link to nothing")
    place = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder} is a file")
    used = is_used(folder)
    if resume and overwrite:
        raise InputError("--resume and --overwrite exclude each other")
    if resume and not written_by(folder, ""):
        raise InputError(f"nothing to resume in {folder}: no {CONFIG} of an earlier run")
    if used and not (overwrite or resume):
        ways = "--overwrite or --resume" if "resume" in flag_values(chosen) else "--overwrite"
        raise InputError(f"{folder} is not empty; use {ways}, or another folder")
    if used and overwrite:
        _check_ours(folder)
    for read in paths_read(chosen) if used and overwrite else ():
        source = place_of(read).resolve()
        if source.exists() and source.is_relative_to(place):
            raise InputError(f"--overwrite would delete {read}, which this command reads")


def _check_ours(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but what unstale wrote there."""
    if not written_by(folder, ""):
        raise InputError(f"{folder} was not written by unstale (no {CONFIG}): not overwritten")
    if not (folder / LIST).is_file():
        rule = "an earlier version of unstale wrote it, and kept no list of its files"
        raise InputError(f"{folder} is not overwritten: {rule}; delete it, or choose another")
    if others := foreign(folder):
        named = ", ".join(map(ascii, others[:3])) + (" and more" if len(others) > 3 else "")
        rule = "unstale did not write this; move it away, or choose another folder"
        raise InputError(f"{folder} is not overwritten, for it holds {named}: {rule}")


def is_used(folder: Path) -> bool:
    """Tell whether a folder holds something but what a kill in the first moment left."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return any(name not in (LOCK, LIST) and not is_temporary(name) for name in names)


def resumes(chosen: OutputFlags) -> bool:
    """Tell whether a command resumes what was interrupted."""
    return bool(flag_values(chosen).get("resume"))  # some commands have no such flag


def _check_choices(command: str, values: Mapping[str, Any]) -> None:
    """Refuse unknown strategies and formats; those of other packages are known by their names."""
    if strategy := values.get("strategy"):
        _check_strategies([strategy], rag=command == "rag")
    if names := values.get("strategies"):
        words = [word.strip().partition(":")[0] for word in names.split(",")]
        _check_strategies(words, rag=bool(values.get("reader")))
    for key in ("to", "format"):
        if values.get(key) and values[key] not in FORMAT_NAMES:
            known = ", ".join(FORMAT_NAMES)
            raise InputError(f"unknown format {values[key]!r}; choose from {known}")


def _check_strategies(names: Iterable[str], *, rag: bool) -> None:
    known = [*STRATEGIES, *(entry.name for entry in entry_points(group="unstale.strategies"))]
    known += ["none", "frozen"] if rag else []
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise InputError(f"unknown strategy {name!r}; choose from {', '.join(known)}{meant}")


def _asks_hub(name: str) -> bool:
    return name != "tiny" and not Path(name).exists() and packaged_model(name) is None
