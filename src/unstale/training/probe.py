"""Which targets the freshness meter encodes: those that decide what the true top k is.

A target matters to a query if its fresh score may be among the k best, and the chance of that falls
about as 1/rank in a cached view. So the first k of each view are encoded, and a sample of the
rest, drawn with known probabilities. What they tell decides what else is encoded (`estimate.py`).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

DEPTH = 512  # of the lists of each view
SAMPLE = 8192  # targets drawn uniformly, which stand for all that are in no list
_AT_FIRST = 0.7  # the share of the targets to encode that is chosen when none is encoded yet
_HEADS = 0.75  # the share of those that the first k of the views may take
_FALL = 1.0  # of the rate of the draw with the rank


class Pool(NamedTuple):
    """Targets whose cached scores are known, and the number of targets each stands for."""

    rows: Int[Tensor, " u"]
    weight: Float[Tensor, "q u"]  # 1 in a list of the query; 0 where another stands for it

    @classmethod
    def of(cls, lists: list[Int[Tensor, "q m"]], sample: Int[Tensor, " s"], targets: int) -> "Pool":
        """Join the lists of the views with a uniform sample of all the targets."""
        rows = torch.cat([*(rows.flatten() for rows in lists), sample]).unique()
        listed = torch.zeros(len(lists[0]), len(rows), dtype=torch.bool, device=rows.device)
        for found in lists:
            listed.scatter_(1, torch.searchsorted(rows, found), True)
        drawn = torch.isin(rows, sample) & ~listed
        others = targets - listed.sum(dim=1, keepdim=True)
        stands_for = others / drawn.sum(dim=1, keepdim=True).clamp(min=1)
        return cls(rows, torch.where(listed, 1.0, torch.where(drawn, stands_for, 0.0)))


class Chosen(NamedTuple):
    """What to encode, for how many of the queries, and what it tells about the rest."""

    queries: int  # the first so many: each has its heads among the places
    places: Int[Tensor, " e"]  # in the pool
    stands_for: Float[Tensor, "q e"]  # targets of the corpus, for the query that drew it; else 0

    def widened(self, places: Int[Tensor, " m"]) -> "Chosen":
        """Add places that no query drew."""
        none = self.stands_for.new_zeros(len(self.stands_for), len(places))
        both = torch.cat([self.stands_for, none], dim=1)
        return Chosen(self.queries, torch.cat([self.places, places]), both)


def choose(
    views: list[Float[Tensor, "q u"]], weight: Float[Tensor, "q u"], k: int, most: int, seed: int
) -> Chosen:
    """Choose a first part of at most so many targets, or all if they are no more.

    It has at least the first k of one query in every view. Every query draws from its own pool; a
    target is encoded if any query draws it. The draws are a race: the time of each is exponential
    with its rate, and the first ones win.
    """
    most = most if most >= weight.shape[1] else int(_AT_FIRST * most)
    rank = torch.stack([_ranks(view, weight) for view in views]).amin(dim=0)
    head = torch.zeros_like(weight, dtype=torch.bool)
    for view in views:
        head.scatter_(1, first(view, weight, k), True)
    taken = head.cumsum(dim=0).bool().sum(dim=1)
    enough = len(taken) if most >= weight.shape[1] else int((taken <= _HEADS * most).sum())
    count = max(1, enough)
    rank, head, weight = rank[:count], head[:count], weight[:count]
    rate = torch.where(head, torch.inf, weight * (rank + 1) ** -_FALL)
    random = torch.Generator().manual_seed(seed)
    race = torch.empty(rate.shape).exponential_(generator=random).to(rate) / rate
    race = torch.where(weight > 0, race, torch.inf)
    row = race.amin(dim=0)
    wanted = min(max(most, int(head.any(dim=0).sum())), int(row.isfinite().sum()))
    best = row.topk(min(wanted + 1, len(row)), largest=False)
    end = best.values[wanted] if wanted < int(row.isfinite().sum()) else row.new_tensor(torch.inf)
    places = best.indices[:wanted].sort().values
    drawn, rate = race[:, places] < end, rate[:, places]
    probability = torch.where(rate.isinf(), 1.0, -torch.expm1(-end * rate))
    return Chosen(count, places, torch.where(drawn, weight[:, places] / probability, 0.0))


def first(scores: Float[Tensor, "q u"], weight: Float[Tensor, "q u"], k: int) -> Int[Tensor, "q k"]:
    """Return the places of each query's k best; of equal scores always the same ones."""
    known = torch.where(weight > 0, scores, -torch.inf)
    return known.argsort(dim=1, descending=True, stable=True)[:, :k]


def _ranks(scores: Float[Tensor, "q u"], weight: Float[Tensor, "q u"]) -> Float[Tensor, "q u"]:
    """Count the targets of the corpus that score higher, as far as the pool knows."""
    order = scores.argsort(dim=1, descending=True)
    sizes = weight.gather(1, order)
    return torch.empty_like(scores).scatter_(1, order, sizes.cumsum(dim=1) - sizes)
