"""Which files of a folder did unstale write? Only those are ever removed.

The folder of a command keeps a list, to which every file is added before it appears under its
name. What is not in the list is somebody else's. A folder below one that keeps a list needs none.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

LIST = ".unstale-files"
LOCK = ".lock"
_OWN = {LIST, LOCK}
_MARKS = {"files.json", "cell.json", "manifest.json", "results.json"}
_TEMPORARY = re.compile(r"\..+\.unstale-(tmp|old)")  # a name that nobody else gives


def temporary(path: Path, kind: str = "tmp") -> Path:
    """Return a name beside a path for what is not finished, which `sweep` knows as ours."""
    return path.with_name(f".{path.name}.{os.getpid()}.unstale-{kind}")


def is_temporary(name: str) -> bool:
    """Tell whether a name is one that only unstale gives, to what is not finished."""
    return _TEMPORARY.fullmatch(name) is not None


def keep_list(folder: Path) -> None:
    """Begin the list of a folder, unless it, or a folder above it, keeps one."""
    if _keeper(folder / LIST) is None:
        begin_list(folder)


def begin_list(folder: Path) -> None:
    """Begin the list of a folder that is a command's output, wherever it lies."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LIST).touch()


def note(paths: Iterable[Path], *, gone: Path | None = None) -> None:
    """Add files to the list that is kept above them, if any, and take what is gone from it."""
    files = list(paths)
    keeper = _keeper(gone or files[0]) if gone or files else None
    if keeper is None:
        return
    lines: list[object] = [{"gone": _name(gone, keeper)}] if gone else []
    names = [_name(path, keeper) for path in files]
    lines += [n for n in names if not any(map(is_temporary, n.split("/")))]
    with (keeper / LIST).open("a", encoding="utf-8") as file:  # a torn line before it ends here
        file.write("".join(f"\n{json.dumps(line)}" for line in lines))


def written(folder: Path) -> set[str] | None:
    """Return the names of the files in a folder that unstale wrote; None if nothing kept a list.

    A name is a path within the folder. The list of a folder above serves as well.
    """
    keeper = _keeper(folder / LIST)
    if keeper is None:
        return None
    found: set[str] = set()
    for line in (keeper / LIST).read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # torn: it names nothing that may be removed
        gone = entry.get("gone") if isinstance(entry, dict) else None
        if isinstance(entry, str):
            found.add(entry)
        elif isinstance(gone, str):
            found = {n for n in found if n != gone and not n.startswith(f"{gone}/")}
    top = "" if keeper == folder.absolute() else f"{_name(folder, keeper)}/"
    inside = (name.removeprefix(top) for name in found if name.startswith(top))
    return {name for name in inside if ".." not in name.split("/") and not name.startswith("/")}


def is_foreign(path: Path) -> bool:
    """Tell whether somebody else put a file where unstale keeps a list of its own."""
    ours = written(path.parent)
    return ours is not None and path.name not in ours and os.path.lexists(path)


def foreign(folder: Path) -> list[str]:
    """List the files of a folder that unstale did not write."""
    ours = written(folder) or set()
    return sorted(name for name in _files(folder) if name not in ours and name not in _OWN)


def remove_written(folder: Path) -> None:
    """Delete what unstale wrote in a folder, and the folders in it that this leaves empty."""
    sweep(folder)
    names = written(folder)
    if names is None:  # kept by nobody, so made by nobody but us
        shutil.rmtree(folder, ignore_errors=True)
        return
    held = set(_files(folder))  # without what a link leads to
    # First what says that something is finished: half of it must not pass for all.
    for name in sorted(names & held, key=lambda name: name.rpartition("/")[2] not in _MARKS):
        (folder / name).unlink()
    parents = {parent for name in names & held for parent in (folder / name).parents}
    for parent in sorted(parents, key=lambda path: len(path.parts), reverse=True):
        if parent != folder and parent.is_relative_to(folder) and not any(parent.iterdir()):
            parent.rmdir()
    if (folder / LIST).is_file():
        (folder / LIST).write_text("", "utf-8")
    else:
        note([], gone=folder)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def forget_missing(folder: Path) -> None:
    """Take what is not there any more from the list of a folder; a cell must keep all it had."""
    for name in written(folder) or ():
        if not name.startswith("cells/") and not os.path.lexists(folder / name):
            note([], gone=folder / name)


def sweep(folder: Path) -> None:
    """Delete what killed writers left behind; only where no other process can be writing.

    A folder whose old version was moved away already, and whose new one is whole, gets the new one.
    """
    for place, folders, files in os.walk(folder):
        for name in sorted(name for name in folders if is_temporary(name)):
            folders.remove(name)
            own, _, kind = name[1:].rpartition(".unstale-")
            meant, made = Path(place, own.rpartition(".")[0]), Path(place, f"{name[:-3]}tmp")
            if kind == "old" and made.is_dir() and not os.path.lexists(meant):
                made.rename(meant)
            shutil.rmtree(Path(place, name), ignore_errors=True)
        for name in files:
            if is_temporary(name):
                Path(place, name).unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[str]:
    """Yield every file and link below a folder, by its name in it; unfinished ones are no files."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_temporary(name)]
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in [*files, *links]:
            if not is_temporary(name):
                yield Path(place, name).relative_to(folder).as_posix()


def _keeper(path: Path) -> Path | None:
    """Find the nearest folder above a path that keeps a list."""
    parents = path.absolute().parents
    return next((parent for parent in parents if (parent / LIST).is_file()), None)


def _name(path: Path, keeper: Path) -> str:
    return path.absolute().relative_to(keeper).as_posix()
