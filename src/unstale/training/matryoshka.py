"""Matryoshka: the first few dimensions of a vector as a vector of their own."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from unstale.errors import InputError


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
