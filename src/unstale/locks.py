"""One process to a run folder: two that write into one would damage both runs."""

import fcntl
import logging
import os
import socket
from pathlib import Path
from typing import IO

from unstale.errors import InputError
from unstale.written import LOCK

_LOG = logging.getLogger(__name__)
_HELD: dict[Path, IO[str]] = {}  # by this process; the system lets go when it dies, however


def hold(folder: Path, *, shared: bool = False) -> None:
    """Keep other processes out of a folder until `release`, or refuse it if one is in there.

    Those that share a folder keep out only those that do not.
    """
    where = folder.resolve()
    if where in _HELD:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read(200).strip() or "another process"
        file.close()
        raise InputError(f"{folder} is in use by {owner}") from None
    except OSError as error:  # a file system without locks
        _LOG.warning("%s cannot be locked (%s): start no second command in it", folder, error)
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    _HELD[where] = file


def release() -> None:
    """Let go of every folder that this process holds."""
    while _HELD:
        _, file = _HELD.popitem()
        file.truncate(0)
        file.close()
