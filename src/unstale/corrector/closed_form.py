"""The least-squares map from stale to fresh vectors: a baseline, and a place to start from."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from unstale.errors import InputError

RIDGES = tuple(10.0**p for p in range(-6, 3))  # times the mean eigenvalue of the covariance


class Affine(NamedTuple):
    """`fresh ≈ stale @ weight + bias`."""

    weight: Float[Tensor, "d e"]
    bias: Float[Tensor, " e"]

    def __call__(self, stale: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        """Map stale embeddings."""
        return stale @ self.weight + self.bias


def least_squares(
    stale: Float[Tensor, "n d"], fresh: Float[Tensor, "m e"], ridge: float | None = None
) -> Affine:
    """Fit the linear map with the least squared error, the bias free of penalty.

    Args:
        stale: The vectors to map.
        fresh: Where they should go; another width than `stale` is fine.
        ridge: The penalty, as a multiple of the mean eigenvalue of the covariance of `stale`; by
            default the one of `RIDGES` with the least leave-one-out error, which is exact and
            costs no refitting. So the map is usable with fewer pairs than dimensions.

    Example:
        >>> stale = torch.randn(50, 3)
        >>> fitted = least_squares(stale, 2 * stale @ torch.ones(3, 2) + 1, ridge=0.0)
        >>> torch.allclose(fitted.weight, torch.full((3, 2), 2.0), atol=1e-4)
        True
    """
    check_pairs(stale, fresh)
    if ridge is not None and ridge < 0:
        raise InputError(f"a ridge must not be negative, got {ridge}")
    mean, goal = stale.double().mean(dim=0), fresh.double().mean(dim=0)
    left, values, right = torch.linalg.svd(stale.double() - mean, full_matrices=False)
    shadow = left.T @ (fresh.double() - goal)  # (r, e): the goal seen in the directions of stale
    unit = float(values.square().sum()) / stale.shape[1]
    if ridge is None:
        ridge = min(
            RIDGES, key=lambda r: _leave_one_out(left, values, shadow, fresh, goal, r * unit)
        )
    shrunk = values / (values.square() + ridge * unit)
    shrunk = torch.where(values > values.max() * 1e-10, shrunk, torch.zeros_like(shrunk))
    weight = right.T @ (shrunk[:, None] * shadow)
    return Affine(weight.to(stale.dtype), (goal - mean @ weight).to(stale.dtype))


def _leave_one_out(
    left: Float[Tensor, "n r"],
    values: Float[Tensor, " r"],
    shadow: Float[Tensor, "r e"],
    fresh: Float[Tensor, "n e"],
    goal: Float[Tensor, " e"],
    penalty: float,
) -> float:
    """Return the squared error of predicting each pair from the others, by the hat matrix."""
    share = values.square() / (values.square() + penalty)
    residual = fresh.double() - goal - left @ (share[:, None] * shadow)
    leverage = (left.square() * share).sum(dim=1) + 1 / len(left)  # 1/n: the free bias
    return float((residual / (1 - leverage).clamp(min=1e-9)[:, None]).square().sum())


def check_pairs(stale: Float[Tensor, "n d"], fresh: Float[Tensor, "m e"]) -> None:
    """Refuse vectors that nothing can be fitted to, by row where one is at fault.

    The counts have their own names, so that the error is ours and says which they are.
    """
    if len(stale) != len(fresh):
        raise InputError(f"{len(stale)} stale and {len(fresh)} fresh vectors make no pairs")
    if len(stale) < 2:
        raise InputError(f"a map needs at least 2 pairs, got {len(stale)}")
    for name, vectors in (("stale", stale), ("fresh", fresh)):
        if not bool(torch.isfinite(vectors).all()):
            row = int((~torch.isfinite(vectors).all(dim=1)).nonzero()[0, 0])
            raise InputError(f"{name} vectors, row {row}: NaN or infinity")
