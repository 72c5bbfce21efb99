"""Which weights does a run keep? The best by its dev queries."""

import shutil
import time
from collections.abc import Callable, Mapping
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
        every: Steps between two looks.
        score: What decides between two looks.
    """

    def __init__(
        self,
        steps: Steps,
        look: Callable[[SentenceTransformer, Miner], tuple[dict[str, float], int] | None],
        best: KeptWeights,
        every: int,
        score: Callable[[Look], tuple[float, ...]],
    ) -> None:
        self.steps, self.look, self.best = steps, look, best
        self.every, self.score = max(1, every), score

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Look, and keep the weights if they are the best so far; the later of equals wins."""
        if state.global_step % self.every and state.global_step != state.max_steps:
            return
        algorithm = self.steps.algorithm
        if (seen := self.look(algorithm.model, algorithm.miner)) is None:
            return
        found, encoded = exchange(seen)[0]  # one decides: the last bit may differ
        looks = algorithm.record.looks
        before = [self.score(look) for look in looks]
        looks.append({"step": state.global_step, **found})
        if self.score(looks[-1]) >= max(before, default=(-1.0,)):
            self.best.save()
        algorithm.record.counters.targets_probed += encoded
        self.steps.log({f"dev/{name}": value for name, value in found.items()})
        self.steps.clock = time.perf_counter()  # the time this took is not the training's
