"""How fresh scores follow corrected ones, among the targets that lie near a query.

Near a query the corrected score says more, and errs more, than elsewhere: the line of fresh over
corrected scores bends upwards, and the scatter around it widens. What all targets of a query have
in common does not change their order, so everything is compared within a query.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

NEAR = 1.0  # deviations above a query's mean score from which a target counts as near
FEWEST = 8  # pairs that a law can be learned from


class Moments(NamedTuple):
    """The mean and the standard deviation of each query's scores."""

    mean: Float[Tensor, "q 1"]
    deviation: Float[Tensor, "q 1"]

    @classmethod
    def of(cls, scores: Float[Tensor, "q n"], valid: Bool[Tensor, "q n"]) -> "Moments":
        """Measure them over the valid targets."""
        mean = _mean(scores, valid)
        return cls(mean, _mean((scores - mean).square(), valid).sqrt().clamp(min=1e-9))

    def standard(self, scores: Float[Tensor, "q n"]) -> Float[Tensor, "q n"]:
        """Return scores in deviations from their query's mean."""
        return (scores.double() - self.mean) / self.deviation


class Law(NamedTuple):
    """A parabola with scatter, of scores in deviations from each query's mean."""

    least: float  # the score from which on it holds
    most: float  # the highest that it was learned from
    bend: Float[Tensor, "2"]  # of the score and of its square
    scatter: Float[Tensor, "2"]  # log variance: at a score of 0, and its slope
    residuals: Float[Tensor, " r"]  # in units of the scatter
    level: Float[Tensor, "q 1"]
    corrected: Moments
    fresh: Moments

    @classmethod
    def fit(
        cls,
        corrected: Float[Tensor, "q h"],
        fresh: Float[Tensor, "q h"],
        valid: Bool[Tensor, "q h"],
        least: float = NEAR,
    ) -> "Law":
        """Learn from the scores that queries give to held-out targets.

        Not valid are the pairs of a target that asks with itself. Only targets whose corrected
        scores lie `least` deviations above their query's mean teach, if there are some.
        """
        then, now = Moments.of(corrected.double(), valid), Moments.of(fresh.double(), valid)
        x, y = then.standard(corrected), now.standard(fresh)
        near = valid & (x > least)
        if int(_several(near).sum()) < FEWEST:
            least, near = -torch.inf, valid
        terms = torch.stack([x, x.square()], dim=2)
        middle, level = _mean(terms, near[:, :, None]), _mean(y, near)
        several = _several(near)
        left, right = (terms - middle)[several], (y - level)[several]
        bend = _solve(left, right)
        # Of n targets of a query the mean has taken one n-th of the variance.
        count = several.sum(dim=1, keepdim=True).expand_as(y)[several]
        error = (right - left @ bend) * (count / (count - 1)).sqrt()
        at = torch.stack([torch.ones_like(error), x[several]], dim=1)
        scatter = _solve(at, (error.square() + 1e-9).log())
        level = level - (middle[:, 0] @ bend)[:, None]
        lonely = ~near.any(dim=1, keepdim=True)  # a query that no held-out target is near to
        level = torch.where(lonely, level[~lonely].mean(), level)
        residuals = error / (0.5 * at @ scatter).exp() if len(error) else torch.zeros(1)
        most = float(x[several].max()) if len(error) else 0.0
        return cls(least, most, bend, scatter, residuals, level, then, now)

    def draw(
        self, corrected: Float[Tensor, "q n"], uniform: Float[Tensor, "q n"]
    ) -> Float[Tensor, "q n"]:
        """Imagine fresh scores; `uniform`, from 0 to 1, chooses a residual for each.

        Targets that are not near are left out, at minus infinity.
        """
        x = self.corrected.standard(corrected)
        first, second = self.bend.tolist()
        vertex = -first / (2 * second) if second else -torch.inf
        # A higher corrected score is never a lower fresh one for the bend.
        rising = x.clamp(max=vertex) if second < 0 else x.clamp(min=vertex)
        width = (0.5 * (self.scatter[0] + self.scatter[1] * x.clamp(max=self.most))).exp()
        residual = self.residuals[(uniform.double() * len(self.residuals)).long()]
        y = self.level + first * rising + second * rising.square() + width * residual
        scores = y * self.fresh.deviation + self.fresh.mean
        return torch.where(x > self.least, scores, -torch.inf).float()


def _solve(left: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.lstsq(left, right[:, None], driver="gelsd").solution[:, 0]


def _several(chosen: Tensor) -> Tensor:
    """Keep those of queries that have more than one: one alone says nothing about a query."""
    return chosen & (chosen.sum(dim=1, keepdim=True) > 1)


def _mean(values: Tensor, valid: Tensor) -> Tensor:
    """Return the mean over the valid targets of each query; 0 without any."""
    return (values * valid).sum(dim=1, keepdim=True) / valid.sum(dim=1, keepdim=True).clamp(min=1)
