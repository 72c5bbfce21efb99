"""A corrector whose fresh vectors may have another width than its stale ones."""

from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from unstale.corrector.closed_form import Affine
from unstale.errors import InputError


@final
class ProjectedCorrector(nn.Module):
    """`h(b) = P b + p + W2 relu(W1 b + c1) + c2`, a residual MLP around a linear projection.

    The MLP ends in zeros, so that h starts as its projection. Only the MLP is trained: a
    least-squares projection is at its best, and a step that suits the MLP ruins it.

    Args:
        start: The projection to start from, such as `least_squares` of the pairs.
        hidden: Widths of the hidden layers; none leaves the projection alone.
        unit: Normalise the output, for encoders whose fresh vectors have unit length.

    Example:
        >>> start = Affine(torch.eye(4, 6), torch.zeros(6))
        >>> h = ProjectedCorrector(start, hidden=[8])
        >>> stale = torch.randn(3, 4)
        >>> h(stale).shape, torch.equal(h(stale), start(stale))
        (torch.Size([3, 6]), True)
    """

    def __init__(self, start: Affine, hidden: Sequence[int] = (), *, unit: bool = False) -> None:
        super().__init__()
        if min([1, *hidden]) < 1:
            raise InputError(f"a corrector needs widths of at least 1, not {list(hidden)}")
        width_in, width_out = start.weight.shape
        self.unit = unit
        self.projection = nn.Linear(width_in, width_out)
        with torch.no_grad():
            self.projection.weight.copy_(start.weight.T)
            self.projection.bias.copy_(start.bias)
        self.projection.requires_grad_(False)
        widths = [width_in, *hidden, width_out] if hidden else []
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        if self.layers:
            last = self.layers[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, stale: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        """Correct stale embeddings."""
        corrected = self.projection(stale)
        if self.layers:
            for layer in self.layers[:-1]:
                stale = functional.relu(layer(stale), inplace=not torch.is_grad_enabled())
            corrected = corrected + self.layers[-1](stale)
        return functional.normalize(corrected, dim=-1) if self.unit else corrected
