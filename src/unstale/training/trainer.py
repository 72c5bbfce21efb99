"""The sentence-transformers trainer, taught that its loss owns weights too.

A stock trainer does not save a loss's weights, resets them on resume while their Adam moments
come back, and leaves them out of `max_grad_norm`. This one saves and restores the miner beside
the model, and clips the corrector by its own norm, so that neither loss can change the other's
update. Its checkpoints are whole or absent, and NaN stops it before the optimizer sees it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sized
from functools import partial
from pathlib import Path
from typing import Any, cast, final

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import Tensor, nn
from transformers import Trainer

from unstale.distributed import average, broadcast, rank, world
from unstale.encoders.embed import prompt_of
from unstale.errors import InputError
from unstale.settings import JobSettings
from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.best import KeptWeights
from unstale.training.checkpoints import PendingCheckpoint
from unstale.training.own_weights import OWN_WEIGHTS, check_norms, clip_own, gradient_norm
from unstale.training.state import load_miner, save_miner


class MinerTrainer(Trainer, ABC):
    """Average, check and save the weights that an algorithm owns, those of its miner too."""

    trained: str  # whose gradients are clipped together, in the words of an error

    def take(self, algorithm: nn.Module, keep_checkpoints: int) -> None:
        """Train an algorithm, which starts from the same weights in all processes."""
        share_weights(self, algorithm.parameters())
        self.algorithm: Any = algorithm  # it is an `Algorithm`
        self.pending = PendingCheckpoint(keep_checkpoints)

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401
        """Average the gradients of all processes once a step's last batch has added its own."""
        loss = super().training_step(*args, **kwargs)
        if self.accelerator.sync_gradients:
            average(p.grad for p in self.algorithm.parameters() if p.grad is not None)
        return loss

    def _get_grad_norm(
        self, model: nn.Module, grad_norm: Tensor | float | None = None
    ) -> Tensor | float:
        """Refuse a gradient that is not finite; half precision with a scaler skips it itself."""
        norm: Tensor | float = super()._get_grad_norm(model, grad_norm=grad_norm)
        if self.accelerator.scaler is None:
            own = gradient_norm(self.algorithm.miner.parameters())
            norms = {self.trained: norm, "the corrector's": own}
            check_norms(self.algorithm.record, norms)
        return norm

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """Log the epochs by pairs seen; the Trainer leaves out those that fill no batch."""
        size = self.args.train_batch_size * self.args.gradient_accumulation_steps * world()
        if self.train_dataset is not None:
            self.state.epoch = self.state.global_step * size / len(cast(Sized, self.train_dataset))
        super().log(logs, start_time)

    def _save_checkpoint(self, model: nn.Module, trial: Any = None) -> None:  # noqa: ANN401
        """Write a checkpoint aside, seal it, and put it in place."""
        with self.pending.save(self) as folder:
            super()._save_checkpoint(model, trial)
            if rank() > 0:
                save_miner(folder, self.algorithm.miner, self.algorithm.record)

    def _get_output_dir(self, trial: Any) -> str:  # noqa: ANN401
        return str(self.pending.folder or super()._get_output_dir(trial))

    @abstractmethod
    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ANN401
        """Save all weights and the record of the run; nothing pickled."""


@final
class FreshTrainer(SentenceTransformerTrainer, MinerTrainer):
    """Train with a `FreshNegativesLoss`; checkpoints hold the corrector and the counters.

    Args:
        args: Any `SentenceTransformerTrainingArguments`; `miner_arguments` fills in what the
            loss needs.
        train_dataset: Columns `query` and `label`, see `FreshNegativesLoss`.
    """

    trained = "the encoders'"

    def __init__(
        self,
        model: SentenceTransformer,
        args: SentenceTransformerTrainingArguments,
        train_dataset: Dataset,
        loss: FreshNegativesLoss,
        keep_checkpoints: int = 2,
    ) -> None:
        super().__init__(model=model, args=args, train_dataset=train_dataset, loss=loss)
        self.take(loss, keep_checkpoints)
        self.best: KeptWeights | None = None  # the best weights so far, if a run keeps them

    def _clip_grad_norm(self, model: nn.Module) -> Tensor | float | None:
        norm = super()._clip_grad_norm(model)  # the encoders, without the loss's own weights
        clip_own(self.algorithm.miner, self.args.max_grad_norm)
        return norm

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ANN401
        """Save the model as a plain folder and the miner beside it; nothing pickled."""
        folder = Path(output_dir or self.args.output_dir or ".")
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(str(folder))
        if self.best is not None:
            self.best.copy_into(folder)
        save_miner(folder, self.algorithm.miner, self.algorithm.record)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:  # type: ignore[override]
        super()._load_from_checkpoint(checkpoint_path)
        if self.best is not None:
            self.best.copy_from(Path(checkpoint_path))
        load_miner(Path(checkpoint_path), self.algorithm.miner, self.algorithm.record)


def miner_arguments(
    model: SentenceTransformer, loss: FreshNegativesLoss, corrector_lr: float
) -> dict[str, Any]:
    """Return the training arguments that a `FreshNegativesLoss` needs.

    Queries pass through their own tower, prompt and length, and the loss's own weights have
    their own learning rate.
    """
    arguments: dict[str, Any] = {"router_mapping": {"query": "query"}}
    if prompt := prompt_of(model, "query"):
        arguments["prompts"] = {"query": prompt}
    if list(loss.miner.parameters()):
        arguments["learning_rate_mapping"] = {OWN_WEIGHTS: corrector_lr}
    return arguments


def share_weights(trainer: Trainer, parameters: Iterable[nn.Parameter]) -> None:
    """Start all processes from the same weights, and keep DDP away; we average gradients.

    A step runs the encoders several times, with the mining in between, which DDP cannot follow.
    """
    if trainer.args.n_gpu > 1:
        raise InputError("one process for each device: start several with torchrun")
    if world() > 1:
        prepare = partial(trainer.accelerator.prepare_model, evaluation_mode=True)
        trainer.accelerator.prepare_model = prepare
        broadcast(parameters)


def trainer_arguments(
    output: Path,
    settings: JobSettings,
    batch_size: int,
    learning_rate: float,
    device: torch.device,
    *,
    progress: bool,
) -> dict[str, Any]:
    """Return what Algorithms 1 and 2 tell transformers' Trainer."""
    steps = settings.steps
    return {
        "output_dir": str(output / "checkpoints"),
        "max_steps": steps,
        "per_device_train_batch_size": batch_size // world(),
        "learning_rate": learning_rate,
        "warmup_steps": min(1.0, 10 / steps) if steps > 10 else 0,
        "seed": settings.seed,
        "report_to": "none",
        "logging_steps": max(1, steps // 20),
        "save_strategy": "steps" if settings.save_steps else "no",
        "save_steps": settings.save_steps or steps,
        "dataloader_drop_last": True,
        "dataloader_pin_memory": device.type != "cpu",
        "use_cpu": device.type == "cpu",
        "disable_tqdm": not progress,
    }
