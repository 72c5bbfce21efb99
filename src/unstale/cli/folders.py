"""Output folders: refuse one in use, replace only what unstale wrote, say what was asked."""

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from unstale.cli.flags import changeable_flags, flag_values
from unstale.errors import InputError
from unstale.files import atomic_file, sweep
from unstale.integrity import SEAL, check_seal
from unstale.locks import LOCK, hold

_LOG = logging.getLogger(__name__)
CONFIG = "config.yaml"
_MARK = "# unstale "  # its first words: the mark of a folder that is ours to replace

_MORE = {"strategies", "seeds"}  # of a comparison, which may grow when it is finished
# What the parser lets through of tags and numbers that make no sense.
_ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_PATHS = set("data model retriever reader buffer vectors run".split())  # or names


def open_output(
    path: str,
    *,
    overwrite: bool = False,
    resume: bool = False,
    dry: bool = False,
    needs: Sequence[str | Path | None] = (),
) -> Path:
    """Return the folder to write to, made if need be; refuse one that holds something else.

    `dry` only checks, so that a command can refuse before long work and touch nothing. `needs`
    are paths that the command reads: none may lie in a folder that is about to be replaced.
    """
    if not path:
        raise InputError("--output is required: a folder for the results")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder} is a file")
    ours = written_by(folder, "")
    used = folder.is_dir() and any(path.name != LOCK for path in folder.iterdir())
    if resume and overwrite:
        raise InputError("--resume and --overwrite exclude each other")
    if resume and not ours:
        raise InputError(f"nothing to resume in {folder}: no {CONFIG} of an earlier run")
    if used and not (overwrite or resume):
        raise InputError(f"{folder} is not empty; use --overwrite or --resume, or another folder")
    if used and overwrite and not ours:
        raise InputError(f"{folder} was not written by unstale (no {CONFIG}): not overwritten")
    for needed in needs if used and overwrite else ():
        if needed and place_of(str(needed)).resolve().is_relative_to(folder.resolve()):
            raise InputError(f"--overwrite would delete {needed}, which this command reads")
    if dry:
        return folder
    hold(folder)
    if used and overwrite:
        _empty(folder)
    if resume:
        sweep(folder)
        (folder / SEAL).unlink(missing_ok=True)  # until the run is finished again
    return folder


def abandon(folder: Path) -> None:
    """Take back a folder in which nothing was made yet, so that a mended command may have it."""
    if not [path for path in folder.iterdir() if path.name not in (CONFIG, LOCK)]:
        _empty(folder)


def place_of(name: str) -> Path:
    """Return the path in a name of data, a model or a buffer."""
    from unstale.data.load import parse_name  # not above: `--help` must not wait for pyarrow

    return parse_name(name)[1].path


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def written_by(folder: Path, command: str) -> bool:
    """Tell whether a command of unstale wrote a folder; "" stands for any."""
    config = folder / CONFIG
    if not config.is_file():
        return False
    with config.open("rb") as file:
        return file.readline(200).startswith(f"{_MARK}{command}".encode())


def save_config(folder: Path, command: str, chosen: Any) -> None:  # noqa: ANN401 - a dataclass
    """Write the resolved flags, in the form that `--config` reads.

    Going on with other flags than a run began with would mix two experiments: it is refused.
    """
    values = _values(chosen)
    if flag_values(chosen).get("resume") and (folder / CONFIG).exists():
        _changed(folder, chosen)
    with atomic_file(folder / CONFIG) as temporary:
        header = f"{_MARK}{command}\n"
        temporary.write_text(header + yaml.safe_dump(values, sort_keys=False), "utf-8")


def is_finished(command: str, chosen: Any) -> bool:  # noqa: ANN401 - a dataclass
    """Tell, and say, that a run has nothing left to resume.

    A finished comparison may be given more to compare. A run that lost files since goes on.
    """
    folder = Path(chosen.output)
    if not chosen.resume or not (folder / SEAL).is_file() or not written_by(folder, command):
        return False
    if _changed(folder, chosen) & _MORE:
        return False
    try:
        check_seal(folder, full=False)
    except InputError as flaw:
        _LOG.warning("%s: the run was finished, and goes on from its last checkpoint", flaw)
        return False
    print(f"{folder} is finished: nothing is left to do")
    return True


def _values(chosen: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    flags = {k: v for k, v in flag_values(chosen).items() if k not in ("overwrite", "resume")}
    return _absolute(flags)


def _changed(folder: Path, chosen: Any) -> set[str]:  # noqa: ANN401 - a dataclass
    """Name the flags that are not those a run began with; refuse what its results depend on."""
    values, before = _values(chosen), _absolute(read_config(folder))
    changed = {key for key in values if key in before and before[key] != values[key]}
    for key in sorted(changed - changeable_flags(type(chosen))):
        flag = f"--{key.replace('_', '-')}"
        raise InputError(
            f"cannot resume {folder} with {flag} {values[key]}: it began with {before[key]}"
        )
    return changed


def read_config(folder: Path) -> dict[str, Any]:
    """Read the flags that a command was given, from its output folder."""
    return read_flags(folder / CONFIG)


def read_flags(path: Path) -> dict[str, Any]:
    """Read a YAML file of flags."""
    try:
        values = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, *_ODD) as error:
        raise InputError(f"{path} is not YAML ({' '.join(str(error).split())[:300]})") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold flags and their values, `steps: 300`")
    for key in values:
        if not isinstance(key, str):
            raise InputError(f"{path}: a flag has a name, not {key!r}")
    return values


def _absolute(values: dict[str, Any]) -> dict[str, Any]:
    """Make paths absolute, so that a run can go on from any folder."""
    found = {k: v for k, v in values.items() if k in _PATHS and v}
    return values | {
        k: [_absolute_name(name) for name in v] if isinstance(v, list) else _absolute_name(v)
        for k, v in found.items()
        if isinstance(v, str | list)
    }


def _absolute_name(name: str) -> str:
    """Make the path in a name absolute, if there is one: `csv:pairs.csv:query=title`, too."""
    place = place_of(name)
    return name.replace(str(place), str(place.resolve()), 1) if place.exists() else name
