"""Checkpoints that are whole or absent: written aside, sealed, renamed; checked when read."""

import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

from transformers import Trainer, TrainerState

from unstale.data.dataset import RetrievalDataset
from unstale.distributed import barrier, rank
from unstale.errors import InputError
from unstale.files import atomic_folder, one_error
from unstale.integrity import check_seal, seal
from unstale.training.failure import NotFiniteError, explain
from unstale.written import remove_written

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"checkpoint-[0-9]+")
_SAVING = ".saving.unstale-tmp"


@final
class PendingCheckpoint:
    """Where a Trainer writes the checkpoint of a step: aside, until it is whole."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.folder: Path | None = None  # below which the Trainer must write meanwhile

    @contextmanager
    def save(self, trainer: Trainer) -> Iterator[Path]:
        """Yield the checkpoint's folder; then seal it, put it in place, and drop old ones.

        All processes write into the same; process 0 does the rest. Whatever kills it in between
        leaves the earlier checkpoints as they were.
        """
        checkpoints = Path(trainer.args.output_dir or ".")
        pending, name = checkpoints / _SAVING, f"checkpoint-{trainer.state.global_step}"
        if rank() == 0:
            shutil.rmtree(pending, ignore_errors=True)
            (pending / name).mkdir(parents=True)
        barrier()
        self.folder = pending
        try:
            with one_error(checkpoints / name):
                yield pending / name
            barrier()  # all that other processes add is there
            if rank() == 0:
                _put_in_place(pending / name, checkpoints, self.keep)
            barrier()
        finally:
            self.folder = None
            if rank() == 0:
                shutil.rmtree(pending, ignore_errors=True)


def train_or_resume(
    trainer: Trainer, dataset: RetrievalDataset, output: Path, *, resume: bool
) -> None:
    """Train from the last complete checkpoint, or from the start, up to the last step.

    NaN or infinity stops the run with the ids of the batch and the checkpoint to resume from.
    """
    checkpoint = last_checkpoint(output) if resume else None
    if resume and rank() == 0:  # what a kill left half-written
        shutil.rmtree(output / "checkpoints" / _SAVING, ignore_errors=True)
    if resume:
        anew = "there is no complete checkpoint to resume from: the training starts again at step 1"
        _LOG.warning("resuming from %s", checkpoint) if checkpoint else _LOG.warning(anew)
    if checkpoint is not None and trainer.args.torch_compile:
        why = "compiled code depends on the shapes that it met before"
        _LOG.warning("--trainer.torch_compile: %s: the last digits may differ", why)
    if checkpoint is not None and step_of(checkpoint) >= trainer.args.max_steps:
        # The stock loop looks at the step only after another batch.
        trainer._load_from_checkpoint(str(checkpoint))
        trainer.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        return
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except NotFiniteError as error:
        raise explain(error, dataset, output, last_checkpoint(output)) from None


def _put_in_place(finished: Path, checkpoints: Path, keep: int) -> None:
    seal(finished)
    with atomic_folder(checkpoints / finished.name) as place:  # over a torn one, if there is one
        for path in finished.iterdir():
            path.rename(place / path.name)
    good = [folder for folder in all_checkpoints(checkpoints) if not _flaw(folder, full=False)]
    for folder in set(all_checkpoints(checkpoints)) - set(good[:keep]):
        remove_written(folder)


def last_checkpoint(output: Path) -> Path | None:
    """Find the newest checkpoint of a run that is whole; say why newer ones are not used."""
    for folder in all_checkpoints(output / "checkpoints"):
        flaw = _flaw(folder, full=True)
        if not flaw:
            return folder
        _LOG.warning("skipping the checkpoint %s: %s", folder, flaw)
    return None


def all_checkpoints(checkpoints: Path) -> list[Path]:
    """List the checkpoints there are, whole or not, the newest first."""
    found = [f for f in checkpoints.glob("checkpoint-*") if _NAME.fullmatch(f.name)]
    return sorted(found, key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """Return after how many steps a checkpoint was written.

    Example:
        >>> step_of(Path("checkpoints/checkpoint-300"))
        300
    """
    return int(checkpoint.name.partition("-")[2])


def _flaw(folder: Path, *, full: bool) -> str:
    try:
        check_seal(folder, full=full)
    except (InputError, OSError) as error:
        return str(error)
    return ""
