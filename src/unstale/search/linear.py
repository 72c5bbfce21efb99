"""The corrector as a linear map, around where a query's best targets lie.

A linear map can be moved to the query: `q.(J b + m) = (J'q).b + q.m`. So a scan of the stale buffer
with `J'q` ranks targets nearly as h would, at the price of a stale scan. One J for all targets is
coarse, but a query needs only one that is good where its own best targets are.
"""

from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from unstale.corrector.network import Corrector
from unstale.search.draws import subset
from unstale.search.vectors import Vectors

_NEAR = 16  # landmarks that make a neighbourhood; measured: 8 to 64 differ little
_TINY = 1e-12


class Neighbourhood(NamedTuple):
    """Where some targets lie: their mean, and their spread in any one direction."""

    centre: Float[Tensor, "b d"]
    spread: Float[Tensor, "b 1"]


@final
class Linearised:
    """Replace each relu by the line that fits it best, for targets spread about a centre.

    For normally distributed x, the best line through relu(x) has the slope P(x > 0), and relu(x)
    has a closed mean. Without a hidden layer the map is h itself; without a corrector it is the
    identity.
    """

    def __init__(self, corrector: Corrector | None, around: Neighbourhood) -> None:
        self._layers = [] if corrector is None else corrector.linear
        self._slopes: list[Float[Tensor, "b h"]] = []
        mean, spread = around
        for layer in self._layers[:-1]:
            x = layer(mean)
            deviation = (spread * layer.weight.norm(dim=1)).clamp(min=_TINY)
            slope = torch.special.ndtr(x / deviation)
            density = deviation * torch.exp(-0.5 * (x / deviation).square()) / (2 * torch.pi) ** 0.5
            mean = x * slope + density  # of relu(x)
            square = (x.square() + deviation.square()) * slope + x * density
            variance = (square - mean.square()).clamp(min=0)
            spread = variance.mean(dim=1, keepdim=True).sqrt()
            self._slopes.append(slope)
        self.mean = around.centre
        if self._layers:
            self.mean = self.mean + self._layers[-1](mean)

    def pull_back(self, queries: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Return `J'q`, each query with the J of its own neighbourhood."""
        if not self._layers:
            return queries
        back = queries @ self._layers[-1].weight
        for layer, slope in zip(self._layers[-2::-1], self._slopes[::-1], strict=True):
            back = (back * slope) @ layer.weight
        return queries + back

    def solve(
        self, pulled: Float[Tensor, "b d"], start: Float[Tensor, "b d"], rounds: int = 1
    ) -> Float[Tensor, "b d"]:
        """Return u with `J'u` near `pulled`, by minimal residuals from a start that is close.

        Measured: from the queries one round is enough, and at the paper's width a second costs a
        tenth of a search.
        """
        if not self._layers:
            return pulled
        u, residual = start, pulled - self.pull_back(start)
        for _ in range(rounds):
            image = self.pull_back(residual)
            along = (image * residual).sum(dim=1, keepdim=True)
            length = along / image.square().sum(dim=1, keepdim=True).clamp(min=_TINY)
            u, residual = u + length * residual, residual - length * image
        return u


@final
class Landmarks:
    """Some fixed targets, which tell in what neighbourhood a query's best targets lie."""

    def __init__(self, buffer: Vectors, count: int, seed: int) -> None:
        rows = subset(len(buffer), min(count, len(buffer)), seed, step=0)
        self.vectors = buffer[rows.to(buffer.device)]
        self._all = _neighbourhood(self.vectors[None])

    def around(self, corrector: Corrector | None, queries: Float[Tensor, "b d"]) -> Neighbourhood:
        """Find each query's neighbourhood: first by a J for all targets, to find those near it."""
        coarse = Linearised(corrector, self._all).pull_back(queries)
        near = (coarse @ self.vectors.T).topk(min(_NEAR, len(self.vectors)), dim=1).indices
        return _neighbourhood(self.vectors[near])


def _neighbourhood(vectors: Float[Tensor, "b m d"]) -> Neighbourhood:
    centre = vectors.mean(dim=1)
    others = max(1, vectors.shape[1] - 1)
    squares = (vectors - centre[:, None]).square().sum(dim=(1, 2)) / others / vectors.shape[2]
    return Neighbourhood(centre, squares.sqrt()[:, None])
