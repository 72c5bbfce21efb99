"""`unstale verify`: is everything on disk as it was written?"""

from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from unstale.buffer.buffer import check_shards
from unstale.cli.options_inspect import VerifyFlags
from unstale.errors import InputError
from unstale.integrity import BUFFER, SEAL, check_seal
from unstale.shown import say


def run(chosen: VerifyFlags) -> None:
    """Check everything that has a manifest, and fail if anything is not as it was written."""
    top = Path(chosen.path)
    found = _manifests(top)
    bad = 0
    for folder, check in tqdm(found, desc="verifying", unit="folder", disable=len(found) < 4):
        try:
            say(f"ok       {folder} ({check(folder)} files)")
        except (InputError, OSError) as error:
            say(f"DAMAGED  {error}")
            bad += 1
    if bad:
        raise InputError(f"{bad} of {len(found)} folders are not as they were written")


def _manifests(top: Path) -> list[tuple[Path, Callable[[Path], int]]]:
    """List the folders that can be checked, with the check for each; a hidden one is unfinished."""
    return [
        (path.parent, check_seal if path.name == SEAL else check_shards)
        for path in sorted([*top.rglob(SEAL), *top.rglob(BUFFER)])
        if not any(part.startswith(".") for part in path.relative_to(top).parts)
    ]
