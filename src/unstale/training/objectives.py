"""The task loss: cross-entropy of the truncated softmax, as pure functions of embeddings."""

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from unstale.distributed import gather
from unstale.errors import InputError
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
        discount: Float[Tensor, " c"] | float = 0.0,
    ) -> Float[Tensor, ""]:
        """Take the cross-entropy with the one-hot P*; the mean over nested embeddings, if any.

        `discount` is subtracted from the targets' logits.
        """
        losses = []
        for dim in self.dims:
            f, g = (truncate(v, dim, unit=self.unit) for v in (queries, targets))
            logits = (self.scale * f @ g.T - discount).masked_fill(absent, -torch.inf)
            losses.append(functional.cross_entropy(logits, label))
        return torch.stack(losses).mean()

    def split_cross_entropy(
        self,
        queries: Float[Tensor, "b d"],
        fresh: Float[Tensor, "c d"],
        candidates: Candidates,
        seen: Float[Tensor, "n d"],
    ) -> Float[Tensor, ""]:
        """Train the queries on fresh and free targets, and the targets on the fresh ones alone.

        In one softmax for both, a target would learn to differ from all that is cached: only what
        is fresh is ever right there, and the encoders collapse. The value is the queries' loss.

        Args:
            seen: How the miner sees the candidates and, after them, the free targets.
        """
        label, absent = candidates.label, candidates.absent
        views = seen.split([len(fresh), len(candidates.free)])
        missed = views[0] - fresh.detach()
        free, noise = rectify(views[1], missed, queries.detach(), label, self.scale)
        every = torch.cat([fresh.detach(), free])
        missing = torch.cat([absent, candidates.free_absent], dim=1)
        discount = torch.cat([noise.new_zeros(len(fresh)), noise.expand(len(free))])
        by_query = self.cross_entropy(queries, every, label, missing, discount)
        by_target = self.cross_entropy(queries.detach(), fresh, label, absent)
        return by_query + by_target - by_target.detach()


@torch.no_grad()
def rectify(
    free: Float[Tensor, "e d"],
    missed: Float[Tensor, "c d"],
    queries: Float[Tensor, "b d"],
    label: Int[Tensor, " b"],
    scale: float,
) -> tuple[Float[Tensor, "e d"], Float[Tensor, ""]]:
    """Return free targets without the mean error of the miner's view, and a discount for noise.

    The miner's view of a target is off by some error, which the targets just encoded show at every
    step. Its mean is common to all that is cached: queries would learn to tell cached targets from
    fresh ones by it, and not good ones from bad, so it is subtracted. The rest is noise n in the
    logits, by which a softmax overrates free targets: the mean of exp(s + n) is
    exp(s + var(n) / 2). The discount is that half of the variance.

    Args:
        free: Targets as the miner sees them.
        missed: The error of its view of those that were encoded, the same in all processes.
        label: The place of each query's positive among the encoded, which is left out.
    """
    mean = missed.mean(dim=0)
    noise = (scale * queries @ (missed - mean).T).scatter(1, label[:, None], 0.0)
    return free - mean, gather(noise.square().mean()[None]).mean() / 2


def nested_dims(dims: Sequence[int], whole: int) -> list[int]:
    """Return the widths to train, the whole first.

    Example:
        >>> nested_dims([64, 128], 384), nested_dims([], 384)
        ([384, 128, 64], [384])
    """
    if bad := [dim for dim in dims if not 1 <= dim <= whole]:
        raise InputError(f"the model has {whole} dimensions: cannot train the first {bad[0]}")
    return sorted({whole, *dims}, reverse=True)


def truncate(vectors: Float[Tensor, "n d"], dim: int, *, unit: bool) -> Float[Tensor, "n e"]:
    """Keep the first dimensions; `unit` normalises what is left."""
    if dim == vectors.shape[1]:
        return vectors
    return functional.normalize(vectors[:, :dim], dim=1) if unit else vectors[:, :dim]
