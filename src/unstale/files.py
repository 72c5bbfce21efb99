"""Write files and folders so that a crash leaves the old one or the new one, never a half."""

import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unstale.errors import InputError, RunError
from unstale.written import foreign, is_foreign, note, temporary, written

os.umask(_UMASK := os.umask(0o077))  # it can only be read by setting it


@contextmanager
def one_error(path: Path) -> Iterator[None]:
    """Turn what libraries raise of a full or broken disk into an error that names the path."""
    try:
        yield
    except Exception as error:
        # torch reports its own file format's writer, safetensors its own type of error.
        torn = type(error).__name__ == "SafetensorError" or "inline_container" in str(error)
        if not torn:
            raise
        raise RunError(f"cannot write {path}: {str(error).partition(chr(10))[0]}") from error


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success fsync it and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"{path} is no regular file, and is not replaced")
    if is_foreign(path):
        raise _not_ours(path)
    made = temporary(path)
    try:
        with one_error(path):
            yield made
        _sync(made)
        note([path])
        os.replace(made, path)  # noqa: PTH105 - os.replace is the atomic one, by name
        _sync(path.parent)
    finally:
        made.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success swap it in for what stood there.

    What somebody else put there stays. Unless `replace`, a folder that is not empty is refused.
    The working folder stays, and what is in it is swapped, entry by entry: whoever is in it, such
    as a shell, would otherwise be in a folder that is deleted.
    """
    path = path.resolve()  # "." has no name
    path.parent.mkdir(parents=True, exist_ok=True)
    made, old = temporary(path), temporary(path, "old")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    try:
        with one_error(path):
            yield made
        sync_folder(made)
        there = path.is_dir() and any(path.iterdir())
        if there and not replace:
            raise InputError(f"{path} was written by another command meanwhile")
        files = [path / file.relative_to(made) for file in all_files(made)]
        _carry(path, made)  # while the list has what stands there
        note(files, gone=path)
        if there and path.samefile("."):
            old.mkdir()
            _move_all(path, old)
        elif there:
            path.rename(old)
        if path.is_dir() and path.samefile("."):
            _move_all(made, path)
            _sync(path)
        else:
            made.rename(path)  # only onto nothing, or an empty folder
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def scratch_beside(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, which is deleted afterwards."""
    path = path.resolve()  # "." has no name
    made = temporary(path.with_name(f"{path.name}-scratch"))
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _carry(old: Path, new: Path) -> None:
    """Put what somebody else put into a folder into the one that will replace it, too."""
    for name in foreign(old) if written(old) is not None else ():
        if (new / name).exists():
            raise _not_ours(old / name)
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(old / name, new / name, follow_symlinks=False)


def _not_ours(path: Path) -> InputError:
    return InputError(f"{path} was not written by unstale, and is not replaced; move it away")


def _move_all(source: Path, target: Path) -> None:
    for path in list(source.iterdir()):
        path.rename(target / path.name)


def all_files(folder: Path) -> list[Path]:
    """List every file below a folder."""
    return [path for path in sorted(folder.rglob("*")) if not path.is_dir()]


def sync_folder(folder: Path) -> None:
    """Wait until everything in a folder is on the disk: a rename must not overtake it."""
    for path in [*folder.rglob("*"), folder]:
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        if os.fstat(handle).st_mode & 0o777 == 0o600:  # as safetensors makes all of its files
            os.fchmod(handle, 0o666 & ~_UMASK)
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Write `value` as indented JSON, atomically; NaN and infinity, which JSON lacks, as null."""
    with atomic_file(path) as temporary:
        text = json.dumps(_finite(value), indent=2, allow_nan=False)
        temporary.write_text(text + "\n", "utf-8")


def _finite(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


def cache_folder() -> Path:
    """Return the folder for what can be made again: `$UNSTALE_CACHE`, or `~/.cache/unstale`."""
    return Path(os.environ.get("UNSTALE_CACHE", "~/.cache/unstale")).expanduser()
