"""The learning rate: it falls with the work that is done, and some steps are more work."""

from functools import partial

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import Trainer
from transformers.trainer_utils import SchedulerType

from unstale.miners.miner import Miner


def decay_with_work(trainer: Trainer, miner: Miner) -> None:
    """Let the linear schedule of a trainer follow the work that its miner says is done.

    With a miner whose steps are all alike it is the trainer's own. Any other schedule that the
    training arguments name stays as it is.
    """
    plain = trainer.create_scheduler

    def create(
        num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> LRScheduler:
        steps, used = num_training_steps, optimizer or trainer.optimizer
        linearly = trainer.args.lr_scheduler_type == SchedulerType.LINEAR
        if trainer.lr_scheduler is None and linearly and used is not None:
            warmup = trainer.args.get_warmup_steps(steps)
            factor = partial(linear, miner=miner, steps=steps, warmup=warmup)
            trainer.lr_scheduler = LambdaLR(used, factor)
        return plain(steps, optimizer)

    trainer.create_scheduler = create  # type: ignore[method-assign]


def linear(step: int, *, miner: Miner, steps: int, warmup: int) -> float:
    """Return what the learning rate is multiplied by after a step: up, then down to 0."""
    if step < warmup:
        return step / max(1, warmup)
    return max(0.0, (steps - miner.work(step, steps)) / max(1, steps - warmup))
