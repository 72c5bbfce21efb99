"""The task loss: cross-entropy of the truncated softmax, as pure functions of embeddings."""

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from unstale.alone import check_dims
from unstale.training.candidates import Candidates


@final
class TruncatedSoftmax(NamedTuple):
    """P(y|x) of equation 3, over the candidates of a batch.

    Args:
        dims: Widths to train, the whole first: of Matryoshka embeddings also the first few
            dimensions are embeddings.
    """

    scale: float
    dims: Sequence[int]
    unit: bool

    def cross_entropy(
        self,
        queries: Float[Tensor, "b d"],
        targets: Float[Tensor, "c d"],
        label: Int[Tensor, " b"],
        absent: Bool[Tensor, "b c"],
    ) -> Float[Tensor, ""]:
        """Take the cross-entropy with the one-hot P*; the mean over nested embeddings, if any."""
        losses = []
        for dim in self.dims:
            f, g = (truncate(v, dim, unit=self.unit) for v in (queries, targets))
            logits = (self.scale * f @ g.T).masked_fill(absent, -torch.inf)
            losses.append(functional.cross_entropy(logits, label))
        return torch.stack(losses).mean()

    def with_in_batch(
        self,
        queries: Float[Tensor, "b d"],
        targets: Float[Tensor, "c d"],
        candidates: Candidates,
    ) -> Float[Tensor, ""]:
        """Average the cross-entropy over all candidates and that over the batch's positives alone.

        Hard negatives take most of the probability of one softmax, and with it most of the
        gradient. The other softmax keeps teaching the rest of the ranking.
        """
        every = self.cross_entropy(queries, targets, candidates.label, candidates.absent)
        if candidates.labels.all():
            return every
        mined = ~candidates.labels
        own = self.cross_entropy(queries, targets, candidates.label, candidates.absent | mined)
        return (every + own) / 2


def nested_dims(dims: Sequence[int], whole: int) -> list[int]:
    """Return the widths to train, the whole first.

    Example:
        >>> nested_dims([64, 128], 384), nested_dims([], 384)
        ([384, 128, 64], [384])
    """
    check_dims(dims, whole)
    return sorted({whole, *dims}, reverse=True)


def truncate(vectors: Float[Tensor, "n d"], dim: int, *, unit: bool) -> Float[Tensor, "n e"]:
    """Keep the first dimensions; `unit` normalises what is left."""
    if dim == vectors.shape[1]:
        return vectors
    return functional.normalize(vectors[:, :dim], dim=1) if unit else vectors[:, :dim]
