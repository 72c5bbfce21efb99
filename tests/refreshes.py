"""What does a strategy embed in a run? Its real miner, asked after every step."""

import torch
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.miners import Embedded
from unstale.training.recipe import Recipe
from unstale.training.strategies import build_miner


def run_through(strategy: str, targets: int, steps: int, **settings: int) -> Embedded:
    """Add up what a run counts, as the trainer's callback does; the encoder is a stub."""
    torch.manual_seed(0)
    buffer = TargetBuffer([torch.randn(targets, 2)])
    recipe = Recipe(targets=targets, buffer=buffer, steps=steps, rank=1, **settings)
    miner = build_miner(strategy, recipe)

    def embed(rows: Tensor) -> Tensor:
        return torch.ones(1, 2).expand(len(rows), 2)

    found = [miner.refresh(step, embed) for step in range(1, steps + 1)]
    return Embedded(sum(e.refreshed for e in found), sum(e.sampled for e in found))
