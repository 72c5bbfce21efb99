"""The paper's beta, which multiplies the scores: fixed, or learnt."""

import math
from typing import final

import torch
from torch import Tensor, nn

_MOST = 100.0  # beyond it a softmax is an argmax, and gradients vanish


@final
class Scale(nn.Module):
    """Hold the scale; learnt, it is the exponential of a weight, so that it stays positive.

    Args:
        start: The scale, or where it begins.
        learnt: Whether it is a weight.
    """

    def __init__(self, start: float, *, learnt: bool) -> None:
        super().__init__()
        self.start = start
        self.log = nn.Parameter(torch.tensor(math.log(start))) if learnt else None

    def forward(self) -> float | Tensor:
        """Return it."""
        if self.log is None:
            return self.start
        with torch.no_grad():  # a clamp in the graph would have no gradient to come back by
            self.log.clamp_(max=math.log(max(_MOST, self.start)))
        return self.log.exp()
