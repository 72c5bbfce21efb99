"""Is what lies on disk what was written? A list of a folder's files, with sizes and checksums."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from unstale.budget import read_object
from unstale.errors import InputError, RunError
from unstale.files import atomic_folder, write_json
from unstale.written import LIST, written

SEAL = "files.json"
BUFFER = "manifest.json"  # a buffer keeps its checksums there
_FORMAT = 1
_LOG = logging.getLogger(__name__)
_BLOCK = 2**20
_REMADE = {SEAL, "report.html"}  # written anew at will
_FREE = {*_REMADE, "checkpoints", "index", "index-before"}  # what anybody may delete


def check_manifest(folder: Path) -> None:
    """Refuse a folder that is not a buffer."""
    if not (folder / BUFFER).is_file():
        raise InputError(f"{folder} is not a buffer: it has no {BUFFER}")


def sha256(path: Path) -> str:
    """Hash a file in bounded memory."""
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            whole.update(block)
    return whole.hexdigest()


def digest(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    """Hash a JSON value, whatever the order of its keys.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
        True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def seal(folder: Path, needs: Iterable[str] = ()) -> None:
    """List every file of a finished folder; hidden ones and folders with their own list are not.

    Of a folder that keeps a list of what unstale wrote, that is sealed, and nothing else.

    Raises:
        RunError: A file is missing of those that were written, or of those that it needs.
    """
    ours = written(folder) if (folder / LIST).is_file() else None
    if lost := lost_files(folder, needs) if needs or ours is not None else []:
        named = ", ".join(map(ascii, lost[:3])) + (" and more" if len(lost) > 3 else "")
        why = "it was moved, or files in it were deleted, while the run wrote into it"
        raise RunError(f"{folder} lacks {named}: {why}")
    names = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    listed = {
        name: {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for name, path in names.items()
        if ours is None or name in ours
    }
    write_json(folder / SEAL, {"format": _FORMAT, "sha256": digest(listed), "files": listed})


def lost_files(folder: Path, needs: Iterable[str] = ()) -> list[str]:
    """List what is missing of what unstale wrote, or of what a folder needs."""
    names = {*needs, *(written(folder) or ())}
    return sorted(
        name for name in names if not _FREE & set(name.split("/")) and not (folder / name).is_file()
    )


def check_seal(
    folder: Path, *, full: bool = True, of: Iterable[str] = ("",), but: Iterable[str] = ()
) -> int:
    """Compare a folder with its list, by content or by sizes only; return how many files.

    Args:
        of: Only files whose names begin with one of these.
        but: Files to leave out.

    Raises:
        InputError: Names the file that is missing, cut, changed, or outside the folder.
    """
    starts, left_out, sealed = tuple(of), set(but), _read(folder)
    names = [name for name in sealed if name.startswith(starts) and name not in left_out]
    files = {name: sealed[name] for name in names}
    for name, entry in files.items():
        path = inside(folder, name, folder / SEAL)
        if not path.is_file():
            raise InputError(f"{folder} lacks its file {name}")
        if (size := path.stat().st_size) != entry["bytes"]:
            raise InputError(f"{path} has {size} bytes, {SEAL} says {entry['bytes']}")
        if full and sha256(path) != entry["sha256"]:
            raise InputError(f"{path} is damaged: its checksum is not that in {SEAL}")
    return len(files)


def cached(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, every byte of it as it was written.

    One that is not there, or not as it was written, is made, and what was wrong is said.
    """
    if folder.exists():
        try:
            check_seal(folder)
        except (InputError, OSError) as flaw:
            _LOG.warning("%s; this part of the cache is made again", flaw)
        else:
            return folder
    with atomic_folder(folder) as temporary:
        make(temporary)
        seal(temporary)
    return folder


def inside(folder: Path, name: str, manifest: Path) -> Path:
    """Return the path of a listed file; refuse one that leaves its folder."""
    path = folder / name
    shown = ascii(name[:80])
    try:
        path.is_file()
        leaves = not path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError) as error:  # too long, or with a zero byte
        raise InputError(f"{manifest}: {shown} cannot be a file ({type(error).__name__})") from None
    if leaves or Path(name).is_absolute():
        raise InputError(f"{manifest}: a file outside the folder: {shown}")
    return path


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / SEAL
    if not path.is_file():
        raise InputError(f"{folder} has no {SEAL}: it was not finished")
    read = read_object(path)
    files = read.get("files")
    if read.get("format") != _FORMAT or not isinstance(files, dict):
        raise InputError(f"{path} is not a list of files of format {_FORMAT}")
    if read.get("sha256") != digest(files):
        raise InputError(f"{path} is damaged: its own checksum does not fit")
    for name, entry in files.items():
        if not isinstance(entry, dict) or not {"bytes", "sha256"} <= entry.keys():
            raise InputError(f"{path}: {name!r} lacks its size or checksum")
    return files


def _files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _REMADE:
            continue
        if path.is_file():
            found.append(path)
        elif path.is_dir() and not any((path / own).is_file() for own in (SEAL, BUFFER)):
            found += _files(path)
    return found
