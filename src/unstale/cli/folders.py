"""May a command write to this folder? By what is there, and nothing heavy is imported."""

from pathlib import Path

from unstale.cli.config import CONFIG, paths_read, place_of, written_by
from unstale.cli.flags import flag_values
from unstale.cli.options import OutputFlags
from unstale.errors import InputError
from unstale.written import LIST, LOCK, foreign, is_temporary, temporary


def check_output(chosen: OutputFlags) -> None:
    """Refuse a folder that holds something else, or what the command is about to read."""
    if not chosen.output:
        raise InputError("--output is required: a folder for the results")
    folder, overwrite, resume = Path(chosen.output), chosen.overwrite, resumes(chosen)
    for part in (folder, *folder.parents):
        if part.is_symlink() and not part.exists():
            raise InputError(f"--output {folder} cannot be a folder: {part} is a link to nothing")
    check_place(folder)
    place = folder.resolve()
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


def check_place(folder: Path) -> None:
    """Refuse a folder that cannot be made, or not be written to."""
    place = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not place.is_dir():
        at = "" if place == folder else f": {place}"
        raise InputError(f"--output {folder}{at} is a file")
    trial = temporary(place / "trial")  # a superuser may write anywhere, and cannot
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        reason = f"nothing can be written to {place} ({error.strerror})"
        raise InputError(f"--output {folder}: {reason}") from error


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
    """Tell whether a command resumes what was interrupted, or embeds a part of what is begun."""
    values = flag_values(chosen)  # some commands have no such flag
    begun = is_part(chosen) and written_by(Path(chosen.output), "")
    return bool(values.get("resume") or begun)


def is_part(chosen: OutputFlags) -> bool:
    """Tell whether other processes may write to the same folder now: parts of one work."""
    return bool(flag_values(chosen).get("shard"))
