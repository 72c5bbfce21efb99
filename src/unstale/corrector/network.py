"""The target corrector network h: a small residual MLP over stale embeddings."""

from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from unstale.errors import InputError


@final
class Corrector(nn.Module):
    """Map each stale embedding to where the target encoder would put it now.

    `h(b) = b + W2 relu(W1 b + c1) + c2` for one hidden layer, the paper's "two layer MLP"; any
    number of hidden layers, none included, is possible. The last layer starts at zero, so that h
    starts as the identity and a corrected search starts as a stale one. The output is not
    normalised.

    Example:
        >>> h = Corrector(dim=4, hidden=[8])
        >>> stale = torch.randn(3, 4)
        >>> torch.equal(h(stale), stale), h.parameter_count  # 4*8 + 8 + 8*4 + 4
        (True, 76)
    """

    def __init__(self, dim: int, hidden: Sequence[int] = (1536,)) -> None:
        super().__init__()
        if min([dim, *hidden]) < 1:
            raise InputError(f"a corrector needs widths of at least 1, not {[dim, *hidden]}")
        widths = [dim, *hidden, dim]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    @property
    def last(self) -> nn.Linear:
        """Return the output layer."""
        layer = self.layers[-1]
        assert isinstance(layer, nn.Linear)
        return layer

    @property
    def parameter_count(self) -> int:
        """Count the parameters, the paper's measure of a corrector's complexity."""
        return sum(p.numel() for p in self.parameters())

    def forward(self, stale: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Correct stale embeddings."""
        return stale + self.last(self._hidden(stale))

    def scores(
        self, queries: Float[Tensor, "b d"], stale: Float[Tensor, "n d"]
    ) -> Float[Tensor, "b n"]:
        """Compute `queries @ h(stale).T`, exactly, the cheaper way round.

        The output layer is linear, so it can be moved to the queries:
        `q.h(b) = q.b + (W2'q).relu(W1 b + c1) + q.c2`, and never runs on the corpus. It pays
        when there are fewer queries than dimensions.
        """
        if len(queries) >= queries.shape[1]:
            return queries @ self(stale).T
        folded = queries @ self.last.weight  # W2' q, (b, hidden)
        constant = queries @ self.last.bias  # q.c2
        if len(self.layers) == 1:  # nothing but the linear layer: all of h moves to the query
            return (queries + folded) @ stale.T + constant[:, None]
        return queries @ stale.T + folded @ self._hidden(stale).T + constant[:, None]

    def _hidden(self, stale: Float[Tensor, "n d"]) -> Float[Tensor, "n h"]:
        for layer in self.layers[:-1]:
            stale = functional.relu(layer(stale), inplace=not torch.is_grad_enabled())
        return stale
