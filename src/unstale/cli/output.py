"""One way to write a run folder: check everything, begin, work, finish.

A folder in use is refused, and only what unstale wrote is replaced.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from unstale.budget import read_small
from unstale.cli.config import CONFIG, changed_flags, save_config, written_by
from unstale.cli.folders import check_output, is_part, is_used, resumes
from unstale.cli.options import OutputFlags
from unstale.distributed import on_first, rank
from unstale.errors import InputError
from unstale.files import atomic_file, atomic_folder
from unstale.integrity import SEAL, check_seal, seal
from unstale.locks import hold
from unstale.migration.stores.address import is_store
from unstale.results import RESULTS, RunResult, write_results
from unstale.shown import say
from unstale.written import (
    LIST,
    LOCK,
    begin_list,
    forget_missing,
    note,
    remove_written,
    sweep,
)

_LOG = logging.getLogger(__name__)
# What may grow when it is finished: a comparison, and a migration.
_MORE = {"strategies", "seeds", "way", "fuse", "re_embed", "swap"}


@contextmanager
def run_folder(command: str, chosen: OutputFlags) -> Iterator["RunFolder"]:
    """Check the output folder of a command, and yield it; nothing is touched before `begin`.

    A folder that is about to be replaced may hold nothing that the command reads, by its flags.
    One in which bad input stopped a command before anything was made is emptied again, so that
    the corrected command can have it. A resume that is refused leaves flags and seal as they were.
    """
    run = RunFolder(command, chosen)
    try:
        yield run
    except InputError:
        made = run.begun and [p for p in run.path.iterdir() if p.name not in (CONFIG, LOCK, LIST)]
        if run.begun and not made and rank() == 0:
            remove_written(run.path)
        elif run.begun:
            run.put_back()
        raise


@final
class RunFolder:
    """The output folder of a command, from its checks to its seal; see `run_folder`.

    Of several processes the first alone writes the flags, the results and the seal.
    """

    def __init__(self, command: str, chosen: OutputFlags) -> None:
        self.path = Path(chosen.output)
        self.begun = False
        self._command = command
        self._chosen = chosen
        self._before: dict[str, bytes] = {}  # what a resume replaces at once
        self.finished = _is_finished(command, chosen)  # which prints it
        if not self.finished:
            _open_output(chosen, dry=True)

    def begin(self) -> Path:
        """Create, empty or reopen the folder, lock it, save the flags, and return its path."""
        on_first(self._begin)
        self.begun = True
        return self.path

    def _begin(self) -> None:
        if resumes(self._chosen):
            found = [self.path / name for name in (CONFIG, SEAL)]
            self._before = {p.name: read_small(p) for p in found if p.is_file()}
        _open_output(self._chosen)
        begin_list(self.path)
        save_config(self.path, self._command, self._chosen)

    def put_back(self) -> None:
        """Undo what the beginning of a resume did to a folder: its results are the earlier ones."""
        for name, data in self._before.items():
            with atomic_file(self.path / name) as file:
                file.write_bytes(data)

    def finish(
        self, data: Mapping[str, Any], runs: Sequence[RunResult], **more: Mapping[str, Any]
    ) -> None:
        """Write results.json, then the seal."""
        if rank() == 0:
            write_results(self.path, data, runs, **more)
        self.seal()

    def seal(self) -> None:
        """List every file with its checksum: a folder that has such a list is finished."""
        if rank() == 0:
            seal(self.path, needs=(LIST, CONFIG, RESULTS))

    @contextmanager
    def at_once(self) -> Iterator[Path]:
        """Yield a folder that takes the place of the output when all is written, flags included.

        This is for commands that write data, which must be whole or absent; it replaces `begin`
        and `finish`.
        """
        with atomic_folder(self.path, replace=self._chosen.overwrite) as folder:
            yield folder
            begin_list(folder)
            save_config(folder, self._command, self._chosen)
            note(path for path in folder.rglob("*") if path.is_file() and path.name != LIST)
            _open_output(self._chosen, dry=True)  # what came meanwhile is not replaced


def _open_output(chosen: OutputFlags, *, dry: bool = False) -> Path:
    """Return the folder to write to, made if need be; refuse one that holds something else.

    `dry` only checks, so that a command can refuse before long work and touch nothing.
    """
    check_output(chosen)
    folder, overwrite, resume = Path(chosen.output), chosen.overwrite, resumes(chosen)
    used = is_used(folder)
    if dry:
        return folder
    together = is_part(chosen)
    hold(folder, shared=together)
    if not together:
        sweep(folder)
    if used and overwrite:
        remove_written(folder)
    if resume:
        begin_list(folder)
        forget_missing(folder)  # what a user deleted since is not lost
        (folder / SEAL).unlink(missing_ok=True)  # until the run is finished again
    return folder


def _is_finished(command: str, chosen: OutputFlags) -> bool:
    """Tell, and say, that a run has nothing left to resume.

    A finished comparison may be given more to compare. A run that lost files since is resumed.
    """
    folder = Path(chosen.output)
    if not resumes(chosen) or not (folder / SEAL).is_file() or not written_by(folder, command):
        return False
    if changed_flags(folder, chosen) & _MORE:
        return False
    if is_store(str(getattr(chosen, "vectors", ""))):  # whose rows may have come or gone
        return False
    try:
        check_seal(folder, full=False)
    except InputError as flaw:
        _LOG.warning("%s: the run was finished, and resumes from its last checkpoint", flaw)
        return False
    say(f"{folder} is finished: nothing is left to do")
    return True
