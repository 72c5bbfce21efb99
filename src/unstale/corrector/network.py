"""The target corrector network h: a small residual MLP over stale embeddings."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from unstale.corrector.dots import dots
from unstale.errors import InputError

_UNITS = 512  # hidden units at a time; measured: what they give of a chunk stays in the cache

Scorer = Callable[[Float[Tensor, "n d"]], Float[Tensor, "b n"]]


@final
class Corrector(nn.Module):
    """Map each stale embedding to where the target encoder would put it now.

    `h(b) = b + W2 relu(W1 b + c1) + c2` for one hidden layer, the paper's "two layer MLP"; any
    number of hidden layers, none included, is possible. The last layer starts at zero, so that h
    starts as the identity and a corrected search starts as a stale one.

    Args:
        dim: The width of the embeddings.
        hidden: The widths of the hidden layers.
        unit: Normalise the output, for encoders whose embeddings have unit length. Otherwise a
            squared error shrinks what it cannot predict, and dot products rank by shrinkage.

    Example:
        >>> h = Corrector(dim=4, hidden=[8])
        >>> stale = torch.randn(3, 4)
        >>> torch.equal(h(stale), stale), h.parameter_count  # 4*8 + 8 + 8*4 + 4
        (True, 76)
    """

    def __init__(self, dim: int, hidden: Sequence[int] = (1536,), *, unit: bool = False) -> None:
        super().__init__()
        self.unit = unit
        if min([dim, *hidden]) < 1:
            raise InputError(f"a corrector needs widths of at least 1, not {[dim, *hidden]}")
        widths = [dim, *hidden, dim]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    @property
    def linear(self) -> list[nn.Linear]:
        """Return the layers, the first to the last."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]

    @property
    def last(self) -> nn.Linear:
        """Return the output layer."""
        return self.linear[-1]

    @property
    def parameter_count(self) -> int:
        """Count the parameters, the paper's measure of a corrector's complexity."""
        return sum(p.numel() for p in self.parameters())

    def forward(self, stale: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Correct stale embeddings."""
        corrected = self.unscaled(stale)
        return functional.normalize(corrected, dim=-1) if self.unit else corrected

    def unscaled(self, stale: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Correct stale embeddings, and do not normalise them."""
        return stale + self.last(self._hidden(stale, len(self.layers) - 1))

    def scores(
        self, queries: Float[Tensor, "b d"], stale: Float[Tensor, "n d"]
    ) -> Float[Tensor, "b n"]:
        """Compute `queries @ h(stale).T`, exactly, the cheaper way round; see `scorer`."""
        return self.scorer(queries)(stale)

    def scorer(self, queries: Float[Tensor, "b d"]) -> Scorer:
        """Prepare to score chunk after chunk of stale embeddings for the same queries.

        The output layer is linear, so it can be moved to the queries, once for all chunks:
        `q.h(b) = q.b + (W2'q).relu(W1 b + c1) + q.c2`, and never runs on the corpus. It pays
        when there are fewer queries than dimensions. The last hidden layer is then a sum over
        its units, a few of which at a time never leave a CPU's cache. The norm of a unit output
        needs the output itself, so nothing is moved there.
        """
        hidden = len(self.layers) > 1
        if self.unit or (hidden and len(queries) >= queries.shape[1]):
            return lambda stale: dots(queries, self(stale))
        folded = queries @ self.last.weight  # W2' q, (b, hidden)
        constant = queries @ self.last.bias  # q.c2
        if not hidden:  # nothing but the linear layer: all of h moves to the query
            moved = queries + folded
            return lambda stale: dots(moved, stale, constant)

        def scores(stale: Float[Tensor, "n d"]) -> Float[Tensor, "b n"]:
            found = torch.addmm(constant, stale, queries.T)
            below, top = self._hidden(stale, len(self.layers) - 2), self.linear[-2]
            width = _units(folded.shape[1], stale.device)
            for first in range(0, folded.shape[1], width):
                units = slice(first, first + width)
                hidden = torch.addmm(top.bias[units], below, top.weight[units].T).relu_()
                found = torch.addmm(found, hidden, folded[:, units].T)
            return found.T.contiguous()

        return scores

    def _hidden(self, stale: Float[Tensor, "n d"], layers: int) -> Float[Tensor, "n h"]:
        """Apply the first layers."""
        for layer in self.layers[:layers]:
            stale = functional.relu(layer(stale), inplace=not torch.is_grad_enabled())
        return stale

    def held(self, queries: int) -> int:
        """Return how many hidden units of a target are held at once while queries score it."""
        *hidden, dim = (layer.out_features for layer in self.linear)
        if queries < dim and not self.unit:
            hidden[-1:] = [_units(width, self.last.weight.device) for width in hidden[-1:]]
        return max(hidden, default=0)


def _units(width: int, device: torch.device) -> int:
    """Return how many hidden units to compute at a time."""
    return min(_UNITS, width) if device.type == "cpu" else width
