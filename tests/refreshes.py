"""What does a strategy embed in a run? Its real miner, asked after every step."""

import torch
from tests.materials import small_miner
from torch import Tensor

from unstale.miners import Embedded


def run_through(strategy: str, targets: int, steps: int, **settings: int) -> Embedded:
    """Add up what a run counts, as the trainer's callback does; the encoder is a stub."""
    zeros = {"subset_size": 0, "sample_size": 0}  # a twentieth
    made = zeros | {"steps": steps, "rank": 1, "seed": 0} | settings
    miner = small_miner(strategy, targets=targets, dim=2, **made)

    def embed(rows: Tensor) -> Tensor:
        return torch.ones(1, 2).expand(len(rows), 2)

    found = [miner.refresh(step, embed) for step in range(1, steps + 1)]
    return Embedded(sum(e.refreshed for e in found), sum(e.sampled for e in found))
