"""Which candidates may be false negatives? Rules by score and by rank, and a cross-encoder."""

from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.errors import InputError
from unstale.filters import Filters
from unstale.miners.miner import Dropped, Miner, Queries

# A second opinion on pairs of a query's and a target's row: a cross-encoder.
PairScores = Callable[[Int[Tensor, " n"], Int[Tensor, " n"]], Float[Tensor, " n"]]


@final
class FalseNegatives:
    """Consider more candidates than are wanted, and keep the first k that pass the filters.

    Where fewer than k pass, a row of -1 stands for each that is missing. What is dropped for a high
    score is kept away: it must not come back as a negative of that query by way of another query
    of the batch.

    Args:
        reach: How many targets the miner can choose from.
        cross_encoder: Is asked about what passes all else, best first.
    """

    def __init__(
        self, filters: Filters, reach: int, cross_encoder: PairScores | None = None
    ) -> None:
        self.filters = filters
        self.reach = reach
        self.cross_encoder = cross_encoder

    def mine(
        self, miner: Miner, queries: Queries, k: int
    ) -> tuple[Int[Tensor, "b m"], Dropped | None]:
        """Choose k of a miner's targets for each query, best first; -1 where too few pass."""
        considered = self.filters.considered(k, veto=self.cross_encoder is not None)
        most = max(k, self.reach - queries.positives.shape[1])
        rows = miner.mine(queries, min(considered, most))
        if not rows.numel():
            return rows, None
        scores, positive = _scores(miner, queries, rows)
        gone, counts = torch.zeros_like(rows, dtype=torch.bool), dict[str, int]()
        for name, mark in too_high(self.filters, scores, positive).items():
            counts[name] = int((mark & ~gone).sum())
            gone = gone | mark
        kept_away = gone
        if (easy := too_low(self.filters, scores)) is not None:
            counts["min_score"] = int((easy & ~gone).sum())
            gone = gone | easy
        if self.filters.range_min:
            first = ~gone & ((~gone).cumsum(dim=1) <= self.filters.range_min)
            counts["range_min"] = int(first.sum())
            gone, kept_away = gone | first, kept_away | first
        if self.cross_encoder is not None:
            vetoed = self._vetoed(self.cross_encoder, queries, rows, gone, k)
            counts["cross_encoder"] = int(vetoed.sum())
            gone, kept_away = gone | vetoed, kept_away | vetoed
        order = gone.int().argsort(dim=1, stable=True)[:, :k]
        chosen = rows.gather(1, order).masked_fill(gone.gather(1, order), -1)
        missing = int((chosen < 0).sum())
        return chosen, Dropped(rows.masked_fill(~kept_away, -1), counts, rows.numel(), missing)

    def keep(
        self, miner: Miner, queries: Queries, rows: Int[Tensor, "b n"], dropped: Dropped | None
    ) -> Int[Tensor, "b n"]:
        """Put -1 for targets of another list that the rules by score, or `mine` before it, drop."""
        scores, positive = _scores(miner, queries, rows)
        gone = list(too_high(self.filters, scores, positive).values())
        gone += [] if (easy := too_low(self.filters, scores)) is None else [easy]
        for mark in gone:
            rows = rows.masked_fill(mark, -1)
        if dropped is None:
            return rows
        return rows.masked_fill((rows[:, :, None] == dropped.kept_away[:, None]).any(dim=2), -1)

    def _vetoed(
        self,
        ask: PairScores,
        queries: Queries,
        rows: Int[Tensor, "b n"],
        gone: Bool[Tensor, "b n"],
        k: int,
    ) -> Bool[Tensor, "b n"]:
        """Ask about the first k that are left, and about those that take a vetoed one's place."""
        known = queries.positives
        positives = _ask(ask, queries, known.clamp(min=0), known >= 0, torch.inf)
        bar = positives.amin(dim=1, keepdim=True) - self.filters.cross_encoder_margin
        vetoed, asked = torch.zeros_like(gone), torch.zeros_like(gone)
        while True:
            left = ~(gone | vetoed)
            new = left & (left.cumsum(dim=1) <= k) & ~asked
            if not new.any():
                return vetoed
            vetoed |= _ask(ask, queries, rows, new, -torch.inf) > bar
            asked |= new


def _scores(
    miner: Miner, queries: Queries, rows: Int[Tensor, "b n"]
) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b 1"]]:
    """Score candidates, and each query's lowest positive, as the miner sees them now."""
    known = queries.positives
    wanted = torch.cat([rows, known.clamp(min=0)], dim=1)
    distinct, place = wanted.unique(return_inverse=True)
    view = miner.view(distinct)
    if view is None:
        raise InputError("this strategy keeps no view of the targets to filter by")
    # Not a product of all queries with all of these: each has its own few.
    scores = (view.searched[place] @ queries.vectors[:, :, None])[:, :, 0]
    positives = scores[:, rows.shape[1] :].masked_fill(known < 0, torch.inf)
    return scores[:, : rows.shape[1]], positives.amin(dim=1, keepdim=True)


def _ask(
    cross_encoder: PairScores,
    queries: Queries,
    rows: Int[Tensor, "b n"],
    wanted: Bool[Tensor, "b n"],
    other: float,
) -> Float[Tensor, "b n"]:
    """Score the wanted pairs by the cross-encoder; the others score `other`."""
    pairs = queries.rows[:, None].expand_as(rows)
    scores = torch.full_like(queries.vectors[:, :1].expand(rows.shape), other)
    scores[wanted] = cross_encoder(pairs[wanted], rows[wanted]).to(scores)
    return scores


def too_high(
    rules: Filters, scores: Float[Tensor, "b n"], positive: Float[Tensor, "b 1"]
) -> dict[str, Bool[Tensor, "b n"]]:
    """Mark, rule by rule, the candidates that may be positives themselves."""
    marks = {}
    if rules.absolute_margin is not None:
        marks["absolute_margin"] = scores + rules.absolute_margin > positive
    if rules.relative_margin is not None:
        # By the magnitude: a share of a negative score would raise the bar instead.
        marks["relative_margin"] = scores > positive - positive.abs() * rules.relative_margin
    if rules.max_score is not None:
        marks["max_score"] = scores > rules.max_score
    return marks


def too_low(rules: Filters, scores: Float[Tensor, "b n"]) -> Bool[Tensor, "b n"] | None:
    """Mark the candidates that are too easy."""
    return None if rules.min_score is None else scores < rules.min_score
