"""Which weights does a run keep? The best by its dev queries."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

from safetensors.torch import load_model, save_model
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from unstale.distributed import barrier, exchange, rank
from unstale.files import atomic_folder
from unstale.miners.miner import Miner
from unstale.training.callbacks import Steps
from unstale.written import remove_written

Look = Mapping[str, float | int]  # what was measured on dev, and after which step
Score = Callable[[Look], tuple[float, ...]]


@final
class KeptWeights:
    """The weights of some modules in a folder: as they started, or the best so far."""

    def __init__(self, folder: Path, modules: Mapping[str, nn.Module]) -> None:
        self.folder, self.modules = folder, modules

    def save(self) -> None:
        """Keep the weights as they are now."""
        if rank() == 0:
            with atomic_folder(self.folder) as folder:
                for name, module in self.modules.items():
                    save_model(module, str(folder / f"{name}.safetensors"))
        barrier()

    def restore(self) -> None:
        """Return the modules to the weights that were kept."""
        for name, module in self.modules.items():
            load_model(module, self.folder / f"{name}.safetensors")
        barrier()  # before one of the processes removes the folder

    def copy_into(self, checkpoint: Path) -> None:
        """Add what is kept, if anything, to a checkpoint."""
        if self.folder.exists():
            shutil.copytree(self.folder, checkpoint / self.folder.name)

    def copy_from(self, checkpoint: Path) -> None:
        """Return to what was kept when a checkpoint was written."""
        if rank() == 0:
            remove_written(self.folder)
            if (checkpoint / self.folder.name).exists():
                with atomic_folder(self.folder) as folder:
                    shutil.copytree(checkpoint / self.folder.name, folder, dirs_exist_ok=True)
        barrier()

    def forget(self) -> None:
        """Remove the folder, once no process reads it any more."""
        barrier()
        if rank() == 0:
            remove_written(self.folder)


@final
class BestByDev(TrainerCallback):
    """Measure the dev queries from time to time, and keep the weights that do best.

    Args:
        steps: Keeps the clock and the record of the run.
        look: Measures the encoders with their miner: the means and the targets encoded, or None
            while the miner has no view of the corpus to measure by.
        best: Where to keep the weights.
        every: Steps between two looks; one more is taken when the corpus has just been embedded.
        score: What decides between two looks.
        at_end: Whether to look after the last step, too.
        patience: Stop the run when so many looks in a row were not better than the best; 0: never.
    """

    def __init__(
        self,
        steps: Steps,
        look: Callable[[SentenceTransformer, Miner], tuple[dict[str, float], int] | None],
        best: KeptWeights,
        every: int,
        score: Score,
        *,
        at_end: bool = True,
        patience: int = 0,
    ) -> None:
        self.steps, self.look, self.best = steps, look, best
        self.every, self.score, self.at_end = max(1, every), score, at_end
        self.patience = patience
        self.embedded = 0  # targets, when it last looked

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Take note of where a resumed run is."""
        self.embedded = self.steps.algorithm.record.counters.targets_embedded

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Look, and keep the weights if they are the best so far; the later of equals wins."""
        algorithm, last = self.steps.algorithm, state.global_step == state.max_steps
        before, self.embedded = self.embedded, algorithm.record.counters.targets_embedded
        due = state.global_step % self.every == 0 or self.embedded > before
        if not (self.at_end if last else due):
            return
        if (seen := self.look(algorithm.model, algorithm.miner)) is None:
            return
        found, encoded = exchange(seen)[0]  # one decides: the last bit may differ
        looks = algorithm.record.looks
        looks.append({"step": state.global_step, **found})
        best = kept_look(looks, self.score)
        if best is looks[-1]:
            self.best.save()
        since = sum(look["step"] > best["step"] for look in looks)
        control.should_training_stop |= 0 < self.patience <= since
        algorithm.record.counters.targets_probed += encoded
        self.steps.log({f"dev/{name}": value for name, value in found.items()})
        self.steps.clock = time.perf_counter()  # the time this took is not the training's


def kept_look(looks: Sequence[Look], score: Score) -> Look:
    """Return the look whose weights were kept: the best, of equals the last.

    Example:
        >>> looks = [{"step": 0, "f1": 0.2}, {"step": 5, "f1": 0.2}]
        >>> kept_look(looks, lambda look: (look["f1"],))["step"]
        5
    """
    return max(looks, key=lambda look: (*score(look), look["step"]))
