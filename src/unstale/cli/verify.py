"""`unstale verify`: is everything on disk as it was written?"""

from pathlib import Path

from tqdm import tqdm

from unstale.buffer.buffer import check_shards
from unstale.cli.by_command import manifests
from unstale.cli.options_inspect import VerifyFlags
from unstale.errors import InputError
from unstale.integrity import SEAL, check_seal
from unstale.shown import say


def run(chosen: VerifyFlags) -> None:
    """Check everything that has a manifest, and fail if anything is not as it was written."""
    top = Path(chosen.path)
    found, bad = manifests(top), 0
    for path in tqdm(found, desc="verifying", unit="folder", disable=len(found) < 4):
        folder, check = path.parent, check_seal if path.name == SEAL else check_shards
        try:
            say(f"ok       {folder} ({check(folder)} files)")
        except (InputError, OSError) as error:
            say(f"DAMAGED  {error}")
            bad += 1
    if bad:
        raise InputError(f"{bad} of {len(found)} folders are not as they were written")
