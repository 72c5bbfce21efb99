"""How much of the true top k a cached view holds, over a corpus of which little was encoded.

Of the targets that were encoded the fresh scores are known. How many of the others score higher
than a given target is estimated: their fresh scores follow the cached ones by a line, with a
scatter around it, both learned from the encoded sample. Targets are compared within a query, since
what all of them have in common does not change their order.
"""

from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.training.probe import Chosen, first

_POWER = 0.35  # measured, see docs/decisions/meter.md
_ROUNDS = 2  # of learning the line, each nearer to where it matters


@final
class _Line(NamedTuple):
    """Fresh scores as they follow cached ones: a level for each query, slopes, and a scatter."""

    level: Float[Tensor, "q 1"]
    slopes: Float[Tensor, " v"]  # of each view
    scatter: float  # a standard deviation; what is left is nearly normal

    def chance(
        self, scores: Float[Tensor, "q n v"], least: Float[Tensor, "q 1"]
    ) -> Float[Tensor, "q n"]:
        """Return the chance that the fresh score of each target is higher than `least`."""
        expected = self.level + scores @ self.slopes
        return 0.5 * torch.special.erfc((least - expected) / (2**0.5 * self.scatter))


def choose_likely(
    views: list[Float[Tensor, "q u"]],
    weight: Float[Tensor, "q u"],
    chosen: Chosen,
    fresh: Float[Tensor, "q e"],
    k: int,
    most: int,
) -> Int[Tensor, " m"]:
    """Choose which targets of the pool to encode next: those most likely in the true top k.

    What is left to the estimate then has little chance to be there. The line stays true of it, for
    the choice depends on cached scores alone.

    Args:
        views: The scores of the pool's targets in each view.
        weight: How many targets of the corpus each of them stands for.
        chosen: What was encoded.
        fresh: The scores of what was encoded.
        k: Of the top k.
        most: How many to choose at most.
    """
    scores, fresh = _sound(views, chosen.queries), fresh[: chosen.queries].double()
    if scores is None or not fresh.isfinite().all():
        return chosen.places[:0]
    line = _learn(scores[:, chosen.places], chosen, fresh, k)
    chance = line.chance(scores, fresh.topk(k).values[:, -1:])
    listed = weight[: chosen.queries] > 0
    left = listed.any(dim=0)
    left[chosen.places] = False
    expected = torch.where(left, (chance * listed).sum(dim=0), -1.0)
    return expected.topk(min(most, int(left.sum()))).indices


def estimate_overlaps(
    views: list[Float[Tensor, "q u"]],
    weight: Float[Tensor, "q u"],
    chosen: Chosen,
    fresh: Float[Tensor, "q e"],
    k: int,
) -> list[float]:
    """Estimate for each view the share of the true top k of the whole corpus in its own top k.

    It is NaN for a view that is not finite.

    Args:
        views: The scores of the pool's targets in each view.
        weight: How many targets of the corpus each of them stands for.
        chosen: What was encoded, the first k of each query in each view among it.
        fresh: The scores of what was encoded.
        k: Of the top k.
    """
    weight, fresh = weight[: chosen.queries].double(), fresh[: chosen.queries].double()
    scores = _sound(views, chosen.queries)
    if scores is None or not fresh.isfinite().all():
        return [torch.nan] * len(views)
    line = _learn(scores[:, chosen.places], chosen, fresh, k)
    hidden = weight.clone()  # targets that were not encoded
    hidden[:, chosen.places] = (hidden[:, chosen.places] - 1).clamp(min=0)
    # Each query has its own few columns: most of the pool is there for other queries.
    hidden, own = hidden.topk(max(1, int((hidden > 0).sum(dim=1).max())))
    scores = scores.gather(1, own[:, :, None].expand(-1, -1, scores.shape[2]))
    place = torch.full((weight.shape[1],), -1, device=weight.device)
    place[chosen.places] = torch.arange(len(chosen.places), device=weight.device)

    def overlap(view: Float[Tensor, "q u"]) -> float:
        inside = []
        for least in fresh.gather(1, place[first(view, weight, k)]).split(1, dim=1):
            before = (fresh > least).sum(dim=1)
            more = (line.chance(scores, least) * hidden).sum(dim=1)
            inside.append(_at_most(k - 1 - before, more))
        return float(torch.stack(inside).mean())

    views = [view[: chosen.queries].double() for view in views]
    return [overlap(view) if view.isfinite().all() else torch.nan for view in views]


def _sound(views: list[Float[Tensor, "q u"]], queries: int) -> Float[Tensor, "p u v"] | None:
    """Join the scores of the first queries in the views that are finite."""
    views = [view[:queries].double() for view in views]
    sound = [view for view in views if view.isfinite().all()]
    return torch.stack(sound, dim=2) if sound else None


def _at_most(count: Tensor, mean: Tensor) -> Tensor:
    """Return the chance that a Poisson variable is at most `count`."""
    chance = torch.special.gammaincc(count.clamp(min=0).double() + 1, mean.clamp(min=1e-12))
    return torch.where(count >= 0, chance, 0.0)


def _learn(
    scores: Float[Tensor, "q e v"], chosen: Chosen, fresh: Float[Tensor, "q e"], k: int
) -> _Line:
    """Learn the line from what each query drew, above all where targets may enter the top k.

    At first every draw counts the same. Then each counts by what it stands for, times a power of
    its chance to enter the top k: the line need not hold where that is nil, and to count by the
    chance itself would leave too few.
    """
    line = _fit(scores, fresh, (chosen.stands_for > 0).double())
    least = fresh.topk(k).values[:, -1:]
    for _ in range(_ROUNDS):
        relevance = line.chance(scores, least).clamp(min=1e-9) ** _POWER
        line = _fit(scores, fresh, chosen.stands_for.double() * relevance)
    return line


def _fit(
    scores: Float[Tensor, "q e v"], fresh: Float[Tensor, "q e"], weight: Float[Tensor, "q e"]
) -> _Line:
    """Fit slopes common to all queries and a level for each, drawn to the mean of all levels."""
    total = weight.sum(dim=1, keepdim=True)
    middle = (scores * weight[:, :, None]).sum(dim=1) / total
    level = (fresh * weight).sum(dim=1, keepdim=True) / total
    used = weight > 0
    left, right = (scores - middle[:, None])[used], (fresh - level)[used]
    root = weight[used].sqrt()[:, None]
    solve = torch.linalg.lstsq((left * root).cpu(), (right[:, None] * root).cpu(), driver="gelsd")
    slopes = solve.solution[:, 0].to(left)
    # The mean of n values has taken one n-th of their variance.
    count = total.square() / weight.square().sum(dim=1, keepdim=True)
    spread = count / (count - 1).clamp(min=0.5)
    squares = (right - left @ slopes).square() * spread.expand_as(weight)[used]
    variance = (weight[used] * squares).sum() / weight.sum()
    level = level - (middle @ slopes)[:, None]
    error = variance / count  # of a level, squared
    true = (level.var() - error.mean()).clamp(min=0) if len(level) > 1 else error
    mean = (level * count).sum() / count.sum()
    level = mean + (level - mean) * true / (true + error).clamp(min=1e-30)
    return _Line(level, slopes, max(float(variance.sqrt()), 1e-9))
