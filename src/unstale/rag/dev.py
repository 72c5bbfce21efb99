"""Which weights does a run keep? The best by dev questions, with no retriever below its start."""

import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from safetensors.torch import load_model, save_model
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from unstale.distributed import barrier, rank
from unstale.errors import InputError
from unstale.files import atomic_folder
from unstale.miners.miner import Miner
from unstale.rag.questions import QuestionSet
from unstale.rag.settings import RagSettings
from unstale.training.callbacks import Steps
from unstale.written import remove_written

_LOG = logging.getLogger(__name__)
_LOOKS = 5  # at the dev questions, evenly spread over a run
_HELD_OUT = 0.1  # of the training questions, where there is no dev split


def choose_dev(
    questions: QuestionSet, settings: RagSettings, batch_size: int
) -> tuple[Int[ndarray, " q"], Int[ndarray, " d"]]:
    """Return the questions to train on, and those that the best weights are chosen by.

    Those are of the split dev; without one, or if dev is what the run is measured on, a tenth of
    the training questions is held out.
    """
    train, most = questions.rows("train"), settings.dev_questions
    if not most:
        return train, train[:0]
    random = np.random.default_rng(0)
    if "dev" in questions.splits and settings.eval_split != "dev":
        dev = questions.rows("dev")
        return train, np.sort(random.permutation(dev)[:most])
    held = min(most, round(_HELD_OUT * len(train)))
    if len(train) - held < batch_size or not held:
        rule = "give a dev split, more questions, a smaller --batch-size, or --dev-questions 0"
        have = f"{questions.dataset.name} has {len(train)} training questions and no dev split"
        raise InputError(f"{have}: too few to hold some out for choosing the weights; {rule}")
    why = "is what the run is measured on" if "dev" in questions.splits else "does not exist"
    said = "%s: the split dev %s; %d of the %d training questions are held out in its place"
    if rank() == 0:
        _LOG.warning(said, questions.dataset.name, why, held, len(train))
    order = random.permutation(train)
    return np.sort(order[held:]), np.sort(order[:held])


@final
class KeptWeights:
    """The weights of some modules in a folder: as they started, and the best so far."""

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
        """Remove the folder."""
        if rank() == 0:
            remove_written(self.folder)


@final
class BestByDev(TrainerCallback):
    """Answer the dev questions from time to time, and keep the weights that answer most.

    Args:
        steps: Keeps the clock and the record of the run.
        look: Measures the retriever with its miner; returns the means and the targets encoded.
        best: Where to keep the weights.
    """

    def __init__(
        self,
        steps: Steps,
        look: Callable[[SentenceTransformer, Miner], tuple[dict[str, float], int]],
        best: KeptWeights,
        total: int,
    ) -> None:
        self.steps, self.look, self.best = steps, look, best
        self.every = max(1, total // _LOOKS)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Look, and keep the weights if they are the best so far; the later of equals wins."""
        if state.global_step % self.every and state.global_step != state.max_steps:
            return
        algorithm = self.steps.algorithm
        found, encoded = self.look(algorithm.model, algorithm.miner)
        looks = algorithm.record.looks
        best = max(map(score, looks), default=(-1.0, -1.0))
        looks.append({"step": state.global_step, **found})
        if score(looks[-1]) >= best:
            self.best.save()
        algorithm.record.counters.targets_probed += encoded
        self.steps.log({f"dev/{name}": value for name, value in found.items()})
        self.steps.clock = time.perf_counter()  # the time this took is not the training's


def score(look: Mapping[str, float | int]) -> tuple[float, float]:
    """Return what decides between two looks: exact match, and F1 where it is equal."""
    return look["exact_match"], look["f1"]


def kept_step(looks: Sequence[Mapping[str, float | int]]) -> int:
    """Return the step of the best look; of equals the last."""
    return int(max(looks, key=lambda look: (*score(look), look["step"]))["step"])
