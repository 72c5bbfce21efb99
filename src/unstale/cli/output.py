"""One way to write a run folder: check everything, begin, work, finish."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from unstale.cli.flags import flag_values
from unstale.cli.folders import abandon, is_finished, open_output, save_config
from unstale.cli.options import Output
from unstale.distributed import barrier, rank
from unstale.errors import InputError
from unstale.files import atomic_folder
from unstale.integrity import seal
from unstale.results import RunResult, write_results


@contextmanager
def run_folder(
    command: str, chosen: Output, *, needs: Sequence[str | Path | None] = ()
) -> Iterator["RunFolder"]:
    """Check the output folder of a command, and yield it; nothing is touched before `begin`.

    A folder in which bad input stopped a command before anything was made is emptied again, so
    that the corrected command can have it.

    Example:
        def run(chosen: Evaluate) -> None:
            with run_folder("evaluate", chosen, needs=(chosen.data,)) as run:
                dataset = load_dataset(chosen.data)  # what can be refused is refused here
                output = run.begin()
                result = measure(dataset, output)
                run.finish(dataset.counts, [result])

    Args:
        command: The name of the command.
        chosen: Its flags.
        needs: Paths that it reads: none may lie in a folder that is about to be replaced.
    """
    run = RunFolder(command, chosen, needs)
    try:
        yield run
    except InputError:
        if run.begun and rank() == 0:
            abandon(run.path)
        raise


@final
class RunFolder:
    """The output folder of a command, from its checks to its seal.

    Of several processes the first alone writes the flags, the results and the seal.

    Args:
        command: The name of the command.
        chosen: Its flags.
        needs: Paths that it reads.
    """

    def __init__(self, command: str, chosen: Output, needs: Sequence[str | Path | None]) -> None:
        self.path = Path(chosen.output)
        self.begun = False
        self._command = command
        self._chosen = chosen
        self._resume = bool(flag_values(chosen).get("resume"))  # some commands have no such flag
        self.finished = self._resume and is_finished(command, chosen)  # which prints it
        if not self.finished:
            self._open(dry=True, needs=needs)

    def begin(self, chosen: Output | None = None) -> Path:
        """Create, empty or reopen the folder, lock it, and save the flags.

        Args:
            chosen: The flags to save, if some were settled since the checks.

        Returns:
            The folder.
        """
        if rank() == 0:
            self._open()
            save_config(self.path, self._command, chosen or self._chosen)
        self.begun = True
        barrier()
        return self.path

    def finish(
        self,
        data: Mapping[str, Any],
        runs: Sequence[RunResult],
        summary: Mapping[str, Any] | None = None,
        average: Mapping[str, float] | None = None,
    ) -> None:
        """Write results.json, then the seal: a folder that has it is finished."""
        if rank() == 0:
            write_results(self.path, data, runs, summary, average)
            seal(self.path)

    @contextmanager
    def at_once(self) -> Iterator[Path]:
        """Yield a folder that takes the place of the output when all is written, flags included.

        This is for commands that write data, which must be whole or absent; it replaces `begin`
        and `finish`.
        """
        with atomic_folder(self.path) as folder:
            yield folder
            save_config(folder, self._command, self._chosen)

    def _open(self, *, dry: bool = False, needs: Sequence[str | Path | None] = ()) -> None:
        open_output(
            self._chosen.output,
            overwrite=self._chosen.overwrite,
            resume=self._resume,
            dry=dry,
            needs=needs,
        )
