"""What a stock trainer must be told around each step, since it is not taught by a subclass."""

from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.base.sampler import BatchSamplers
from torch import nn
from transformers import TrainerControl, TrainerState, TrainingArguments

from unstale.bfloat16 import ensure_bfloat16
from unstale.budget import read_object
from unstale.errors import InputError
from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.callbacks import Steps
from unstale.training.card import show_freshness
from unstale.training.meter import Meter
from unstale.training.own_weights import check_norms, clip_own, gradient_norm
from unstale.training.state import MINER_STATE, load_miner, save_miner


@final
class KeepFresh(Steps):
    """Keep the step, refresh, read the meter; save, restore, clip and zero the loss's own weights.

    Args:
        meter_steps: Steps between readings; None for a tenth of the run.
        planned: The length that a schedule was made for, if there is one.
    """

    def __init__(
        self,
        trainer: SentenceTransformerTrainer,
        loss: FreshNegativesLoss,
        meter: Meter,
        meter_steps: int | None,
        *,
        planned: int | None,
    ) -> None:
        super().__init__(trainer, loss, meter, meter_steps or 1)
        self.loss = loss
        self.meter_steps = meter_steps
        self.planned = planned

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Begin, or resume from the checkpoint that the trainer loaded."""
        self.every = self.meter_steps or max(1, state.max_steps // 10)
        self._check_optimizer()
        if self.planned not in (None, state.max_steps):
            rule = "give FreshNegatives the trainer's number of steps, for its refresh schedule"
            raise InputError(f"steps={self.planned}, but the run has {state.max_steps}: {rule}")
        self._forget()
        if state.global_step:
            load_miner(self._checkpoint(args, state), self.loss.miner, self.loss.record)
        super().on_train_begin(args, state, control)

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Give the loss's own weights what the trainer gave the encoders' alone."""
        if self.trainer.accelerator.scaler is None:  # which skips such a step itself
            encoders = gradient_norm(self.loss.model.parameters())
            own = gradient_norm(self.loss.miner.parameters())
            check_norms(self.loss.record, {"the encoders'": encoders, "the corrector's": own})
        if args.max_grad_norm > 0:
            clip_own(self.loss.miner, args.max_grad_norm)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Refresh and measure."""
        self._forget()
        super().on_step_end(args, state, control)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Add the loss's own weights to the checkpoint that was just written."""
        save_miner(_folder(args, state), self.loss.miner, self.loss.record)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Put the freshness on the model card."""
        corpus = str(self.loss.about["corpus"])
        show_freshness(self.loss.model, corpus, self.loss.record.freshness)

    def _check_optimizer(self) -> None:
        """Refuse an optimizer that was made without the loss's own weights."""
        optimizer: Any = self.trainer.optimizer
        held = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        if any(id(weight) not in held for weight in self.loss.miner.parameters()):
            rule = 'add a group {"params": fresh.own_weights, "lr": fresh.corrector_lr}'
            raise InputError(f"the given optimizer does not train the corrector: {rule}")

    def _forget(self) -> None:
        """Drop old gradients; the trainer's `zero_grad` reaches only the encoders'."""
        for weight in self.loss.miner.parameters():
            weight.grad = None

    def _checkpoint(self, args: TrainingArguments, state: TrainerState) -> Path:
        """Find the checkpoint that the trainer resumes from: it does not tell its callbacks."""
        named = args.resume_from_checkpoint
        places = [Path(named)] if isinstance(named, str) else []
        places.append(_folder(args, state))
        for place in places:
            if _steps(place) == state.global_step:
                return place
        rule = "say where by the training argument resume_from_checkpoint"
        whole = sorted(Path(args.output_dir or ".").glob("checkpoint-*"), key=_steps)
        if whole and (steps := _steps(whole[-1])):
            rule += f", or resume from step {steps}, {whole[-1]}"
        raise InputError(f"no corrector of step {state.global_step} in {places[-1]}; {rule}")


def _folder(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(args.output_dir or ".") / f"checkpoint-{state.global_step}"


def _steps(checkpoint: Path) -> int:
    """Return after how many steps the loss's own weights were saved; 0 if they were not."""
    path = checkpoint / MINER_STATE
    return int(read_object(path)["step"]) + 1 if path.is_file() else 0  # it began with that one


def check_wrapping(trainer: SentenceTransformerTrainer, loss: nn.Module) -> None:
    """Refuse a trainer that would not train with this loss as it is."""
    own: object = trainer.loss
    if own is not loss:
        raise InputError("the trainer has another loss: give it `loss=fresh.loss`")
    if trainer.args.batch_sampler == BatchSamplers.GROUP_BY_LABEL:
        raise InputError("batch_sampler group_by_label: labels are rows here, and no classes")
    if trainer.args.n_gpu > 1:
        raise InputError("one process for each device: start several with torchrun")
    if trainer.args.bf16 and trainer.args.device.type == "cpu":
        ensure_bfloat16()
