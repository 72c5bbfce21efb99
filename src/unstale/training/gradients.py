"""Are the gradients finite? Asked before the optimizer spreads them into the weights."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from unstale.training.record import Record


def check_norms(record: Record, norms: Mapping[str, Tensor | float]) -> None:
    """Stop at the first norm that is not finite; they are named by whose gradient it is."""
    for whose, norm in norms.items():
        if not math.isfinite(float(norm)):
            raise record.not_finite(f"{whose} gradient")


def gradient_norm(weights: Iterable[nn.Parameter]) -> float:
    """Return the norm of the gradient of all of them together."""
    grads = [p.grad for p in weights if p.grad is not None]
    return float(torch.stack([g.norm() for g in grads]).norm()) if grads else 0.0
