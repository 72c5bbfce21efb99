"""The losses of Algorithm 2, on truncated distributions over each question's own targets."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.distributed import total, world
from unstale.rag.reader import IGNORED


def perplexity_distillation(
    log_p: Float[Tensor, "b k"], scores: Float[Tensor, "b k"]
) -> Float[Tensor, ""]:
    """Compute the cross-entropy from P_a to the retriever's P; P_a is a label, so detached.

    Args:
        log_p: log P(y|x) over a question's targets, from fresh embeddings.
        scores: How likely the reader finds the answer given each target (log P(a|y,x)).
    """
    p_a = torch.softmax(scores.detach(), dim=1)
    return -(p_a * log_p).sum(dim=1).mean()


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
