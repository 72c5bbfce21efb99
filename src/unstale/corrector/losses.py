"""The losses that train a corrector, equations 5 (as printed, and squared) and 6 of the paper.

Whatever is not the corrector's (queries, fresh embeddings, scale) is detached here, so that "the
corrector model loss only changes the corrector model parameters".
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unstale.settings import LossName

CorrectionLoss = Callable[..., Float[Tensor, ""]]


def cross_entropy(
    queries: Float[Tensor, "b d"],
    fresh: Float[Tensor, "c d"],
    corrected: Float[Tensor, "c d"],
    scale: float,
    within: Bool[Tensor, "b c"] | None = None,
) -> Float[Tensor, ""]:
    """Compute KL(P || P_h) over the candidates, the mean over queries.

    Equation 6 is the log-ratio of one target; its expectation under P is this divergence, which
    has the gradient of the cross-entropy between P and P_h and is zero for a perfect corrector.
    `within` limits each query's softmax to some of the candidates.
    """
    true = log_softmax(scale * queries.detach() @ fresh.detach().T, within)
    approximate = log_softmax(scale * queries.detach() @ corrected.T, within)
    ratio = true - approximate
    if within is not None:
        ratio = ratio.masked_fill(~within, 0.0)
    return (true.exp() * ratio).sum(dim=1).mean()


def mean_squared_error(
    queries: Float[Tensor, "b d"],
    fresh: Float[Tensor, "c d"],
    corrected: Float[Tensor, "c d"],
    scale: float,
    within: Bool[Tensor, "b c"] | None = None,
) -> Float[Tensor, ""]:
    """Compute the squared distance of corrected to fresh embeddings, the mean over targets.

    Equation 5 prints the distance itself; squared, its gradient fades as the two meet, and it is
    what the name says. Queries, scale and `within` do not matter to it.
    """
    return (fresh.detach() - corrected).square().sum(dim=1).mean()


def mean_distance(
    queries: Float[Tensor, "b d"],
    fresh: Float[Tensor, "c d"],
    corrected: Float[Tensor, "c d"],
    scale: float,
    within: Bool[Tensor, "b c"] | None = None,
) -> Float[Tensor, ""]:
    """Compute the distance of corrected to fresh embeddings, the mean over targets.

    This is equation 5 as printed, not squared. Its gradient has the same length however near the
    two are; where they are equal it is 0. Queries, scale and `within` do not matter to it.
    """
    return torch.linalg.vector_norm(fresh.detach() - corrected, dim=1).mean()


LOSSES: dict[LossName, CorrectionLoss] = {
    "ce": cross_entropy,
    "mse": mean_squared_error,
    "distance": mean_distance,
}


def log_softmax(
    logits: Float[Tensor, "b c"], within: Bool[Tensor, "b c"] | None
) -> Float[Tensor, "b c"]:
    """Take a log-softmax over each row, over the entries `within` only; finite everywhere."""
    if within is not None:
        logits = logits.masked_fill(~within, torch.finfo(logits.dtype).min / 2)
    return torch.log_softmax(logits, dim=1)
