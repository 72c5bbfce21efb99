"""The losses of Algorithm 2, on truncated distributions over each question's own targets."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.distributed import total, world
from unstale.rag.reader import IGNORED


def perplexity_distillation(
    log_p: Float[Tensor, "b k"],
    scores: Float[Tensor, "b k"],
    weights: Float[Tensor, " b"] | None = None,
) -> Float[Tensor, ""]:
    """Compute the cross-entropy from P_a to the retriever's P; P_a is a label, so detached.

    Args:
        log_p: log P(y|x) over a question's targets, from fresh embeddings.
        scores: How likely the reader finds the answer given each target (log P(a|y,x)).
        weights: How much each question counts; all alike by default.
    """
    p_a = torch.softmax(scores.detach(), dim=1)
    each = -(p_a * log_p).sum(dim=1)
    return (each if weights is None else weights * each).mean()


def informative(
    scores: Float[Tensor, "b k"], missing: Bool[Tensor, "b k"] | None = None
) -> Float[Tensor, " b"]:
    """Return how well P_a tells each question's targets apart: KL(P_a || uniform) / log k.

    It is 0 if P_a is uniform and 1 if it names one target. A reader that cannot read yet has a
    uniform P_a; as a label, that would teach the retriever to rank nothing above anything. A
    question with missing targets, whose scores are next to nothing, has a smaller k.

    Example:
        >>> informative(torch.tensor([[-1.0, -1.0], [0.0, -99.0]]))
        tensor([0., 1.])
    """
    most = scores.new_tensor(math.log(scores.shape[1]))
    if missing is not None:
        most = (~missing).sum(dim=1).clamp(min=1).log().to(scores)
    log_a = torch.log_softmax(scores.detach(), dim=1)
    divergence = (log_a.exp() * log_a).sum(dim=1) + most
    return divergence.clamp(min=0) / most.clamp(min=math.log(2))  # of one there is nothing to tell


def marginal_nll(
    log_p: Float[Tensor, "b k"], log_likelihood: Float[Tensor, "b k"]
) -> Float[Tensor, ""]:
    """Compute -log P_LM(a|x), P_LM(a|x) = sum over y of P(a|y,x) P(y|x), the mean over questions.

    Its gradient reaches the retriever too.
    """
    return -torch.logsumexp(log_likelihood + log_p, dim=1).mean()


def token_nll(log_probs: Float[Tensor, "b t"], labels: Int[Tensor, "b t"]) -> Float[Tensor, ""]:
    """Average -log P over all tokens of the batch's answers in all processes, as T5 does."""
    tokens = total((labels != IGNORED).sum()) / world()  # gradients are averaged later
    return -log_probs.sum() / tokens
