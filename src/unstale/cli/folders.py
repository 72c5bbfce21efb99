"""Output folders: refuse one in use, replace only what unstale wrote, say what was asked."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from unstale.errors import InputError
from unstale.files import atomic_file

CONFIG = "config.yaml"  # also the mark of a folder that is ours to replace


def open_output(
    path: str, *, overwrite: bool = False, resume: bool = False, dry: bool = False
) -> Path:
    """Return the folder to write to, made if need be; refuse one that holds something else.

    `dry` only checks, so that a command can refuse before long work and touch nothing.
    """
    if not path:
        raise InputError("--output is required: a folder for the results")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder} is a file")
    ours = (folder / CONFIG).exists()
    used = folder.is_dir() and any(folder.iterdir())
    if resume and overwrite:
        raise InputError("--resume and --overwrite exclude each other")
    if resume and not ours:
        raise InputError(f"nothing to resume in {folder}: no {CONFIG} of an earlier run")
    if used and not (overwrite or resume):
        raise InputError(f"{folder} is not empty; use --overwrite or --resume, or another folder")
    if used and overwrite and not ours:
        raise InputError(f"{folder} was not written by unstale (no {CONFIG}): not overwritten")
    if dry:
        return folder
    if used and overwrite:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save_config(folder: Path, command: str, chosen: Any) -> None:  # noqa: ANN401 - a dataclass
    """Write the resolved flags, in the form that `--config` reads."""
    values = {k: v for k, v in asdict(chosen).items() if k not in ("overwrite", "resume")}
    with atomic_file(folder / CONFIG) as temporary:
        header = f"# unstale {command} --config {CONFIG}\n"
        temporary.write_text(header + yaml.safe_dump(values, sort_keys=False), "utf-8")
