"""The weights that a loss owns, and what a stock trainer forgets to do with them.

It does not save them, resets them on resume, does not average them over processes and does not clip
them. Here is the cure for each, for any trainer to call.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.record import RunRecord
from unstale.training.state import load_miner, save_miner

OWN_WEIGHTS = r"(^|^algorithm\.)(miner|scale)\."  # for `learning_rate_mapping`


def own_weights(loss: FreshNegativesLoss) -> list[nn.Parameter]:
    """List the weights that are the loss's and not the encoders'."""
    return [*loss.miner.parameters(), *loss.scale.parameters()]


def save_own(folder: Path, loss: FreshNegativesLoss) -> None:
    """Write them, and the run's record, into a checkpoint."""
    save_miner(folder, loss.miner, loss.record, loss.scale)


def load_own(folder: Path, loss: FreshNegativesLoss) -> None:
    """Bring them back from a checkpoint of the same run."""
    load_miner(folder, loss.miner, loss.record, loss.scale)


def clip_own(loss: FreshNegativesLoss, max_norm: float) -> None:
    """Clip them by a norm of their own, so that neither loss can change the other's update."""
    if own := own_weights(loss):
        torch.nn.utils.clip_grad_norm_(own, max_norm)


def check_gradients(loss: FreshNegativesLoss, encoders: Tensor | float) -> None:
    """Stop before a gradient that is not finite reaches the optimizer.

    Args:
        loss: Whose own weights to look at.
        encoders: The norm of the encoders' gradient.
    """
    own = gradient_norm(own_weights(loss))
    check_norms(loss.record, {"the encoders'": encoders, "the corrector's": own})


def check_norms(record: RunRecord, norms: Mapping[str, Tensor | float]) -> None:
    """Stop at the first norm that is not finite; they are named by whose gradient it is."""
    for whose, norm in norms.items():
        record.check_finite(f"{whose} gradient", torch.as_tensor(norm, dtype=torch.float64)[None])


def gradient_norm(weights: Iterable[nn.Parameter]) -> float:
    """Return the norm of the gradient of all of them together."""
    grads = [p.grad for p in weights if p.grad is not None]
    return float(torch.stack([g.norm() for g in grads]).norm()) if grads else 0.0
