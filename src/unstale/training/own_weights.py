"""The gradients of the weights that a miner owns: a stock trainer neither clips nor checks them."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from unstale.training.record import RunRecord

OWN_WEIGHTS = r"(^|^algorithm\.)miner\."  # for `learning_rate_mapping`


def clip_own(miner: nn.Module, max_norm: float) -> None:
    """Clip them by a norm of their own, so that neither loss can change the other's update."""
    if own := list(miner.parameters()):
        torch.nn.utils.clip_grad_norm_(own, max_norm)


def check_norms(record: RunRecord, norms: Mapping[str, Tensor | float]) -> None:
    """Stop before a gradient that is not finite reaches the optimizer; each norm has a name."""
    for whose, norm in norms.items():
        record.check_finite(f"{whose} gradient", torch.as_tensor(norm, dtype=torch.float64)[None])


def gradient_norm(weights: Iterable[nn.Parameter]) -> float:
    """Return the norm of the gradient of all of them together."""
    grads = [p.grad for p in weights if p.grad is not None]
    return float(torch.stack([g.norm() for g in grads]).norm()) if grads else 0.0
