"""A Trainer in several processes, whose gradients we average ourselves."""

from collections.abc import Iterable
from functools import partial

from torch import nn
from transformers import Trainer

from unstale.distributed import broadcast, world


def share_by_hand(trainer: Trainer, parameters: Iterable[nn.Parameter]) -> None:
    """Start all processes from the same weights, and keep DDP away.

    A step runs the encoders several times, with the mining in between, which DDP cannot follow.
    """
    if world() > 1:
        prepare = partial(trainer.accelerator.prepare_model, evaluation_mode=True)
        trainer.accelerator.prepare_model = prepare
        broadcast(parameters)
