"""Filtered: what another miner chooses, without what may be a false negative, at every step."""

from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.errors import InputError
from unstale.miners.filters import Filters
from unstale.miners.miner import Dropped, Embed, Embedded, Miner, Queries, Reading, View
from unstale.search.search import Search


@runtime_checkable
class PairScores(Protocol):
    """A second opinion on pairs of a query and a target: a cross-encoder."""

    def __call__(
        self, queries: Int[Tensor, " n"], targets: Int[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Score pairs of rows."""
        ...


@final
class Filtered(Miner):
    """Consider more candidates than are wanted, and keep the first k that pass the filters.

    Scores are the miner's own, corrected if it corrects. The positive's score is that of the
    query's lowest known positive. Where fewer than k pass, a row of -1 stands for each that is
    missing. What is dropped for a high score is spared: it must not come back as a negative of
    that query by way of another query of the batch.

    Args:
        miner: Whose targets to filter; it must show a view of them.
        filters: The rules.
        reach: How many targets the miner can choose from.
        veto: A cross-encoder, asked about what passes all else, best first.
    """

    def __init__(
        self, miner: Miner, filters: Filters, reach: int, veto: PairScores | None = None
    ) -> None:
        super().__init__()
        self.miner = miner
        self.filters = filters
        self.reach = reach
        self.veto = veto
        self._dropped: Dropped | None = None

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Choose k targets for each query, best first; -1 where too few pass."""
        considered = self.filters.considered(k, veto=self.veto is not None)
        most = max(k, self.reach - queries.positives.shape[1])
        rows = self.miner.mine(queries, min(considered, most))
        if not rows.numel():
            return rows
        scores, positive = self._scores(queries, rows)
        gone, counts = torch.zeros_like(rows, dtype=torch.bool), dict[str, int]()
        for name, mark in self.filters.too_high(scores, positive).items():
            counts[name] = int((mark & ~gone).sum())
            gone = gone | mark
        spared = gone
        if (easy := self.filters.too_low(scores)) is not None:
            counts["min_score"] = int((easy & ~gone).sum())
            gone = gone | easy
        if self.filters.range_min:
            first = ~gone & ((~gone).cumsum(dim=1) <= self.filters.range_min)
            counts["range_min"] = int(first.sum())
            gone, spared = gone | first, spared | first
        if self.veto is not None:
            vetoed = self._vetoed(queries, rows, gone, k)
            counts["cross_encoder"] = int(vetoed.sum())
            gone, spared = gone | vetoed, spared | vetoed
        order = gone.int().argsort(dim=1, stable=True)[:, :k]
        chosen = rows.gather(1, order).masked_fill(gone.gather(1, order), -1)
        short = int((chosen < 0).sum())
        kept_away = rows.masked_fill(~spared, -1)
        self._dropped = Dropped(kept_away, counts, rows.numel(), short)
        return chosen

    def dropped(self) -> Dropped | None:
        """Tell what the last call dropped."""
        return self._dropped

    def _scores(
        self, queries: Queries, rows: Int[Tensor, "b n"]
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b 1"]]:
        """Score candidates, and each query's lowest positive, as the miner sees them now."""
        known = queries.positives
        wanted = torch.cat([rows, known.clamp(min=0)], dim=1)
        distinct, place = wanted.unique(return_inverse=True)
        view = self.miner.view(distinct)
        if view is None:
            raise InputError("this strategy keeps no view of the targets to filter by")
        # Not a product of all queries with all of these: each has its own few.
        scores = (view.searched[place] @ queries.vectors[:, :, None])[:, :, 0]
        positives = scores[:, rows.shape[1] :].masked_fill(known < 0, torch.inf)
        return scores[:, : rows.shape[1]], positives.amin(dim=1, keepdim=True)

    def _vetoed(
        self, queries: Queries, rows: Int[Tensor, "b n"], gone: Bool[Tensor, "b n"], k: int
    ) -> Bool[Tensor, "b n"]:
        """Ask about the first k that are left, and about those that take a vetoed one's place."""
        known = queries.positives
        positives = self._ask(queries, known.clamp(min=0), known >= 0, torch.inf)
        bar = positives.amin(dim=1, keepdim=True) - self.filters.cross_encoder_margin
        vetoed, asked = torch.zeros_like(gone), torch.zeros_like(gone)
        while True:
            left = ~(gone | vetoed)
            ask = left & (left.cumsum(dim=1) <= k) & ~asked
            if not ask.any():
                return vetoed
            vetoed |= self._ask(queries, rows, ask, -torch.inf) > bar
            asked |= ask

    def _ask(
        self, queries: Queries, rows: Int[Tensor, "b n"], ask: Bool[Tensor, "b n"], other: float
    ) -> Float[Tensor, "b n"]:
        assert self.veto is not None
        pairs = queries.rows[:, None].expand_as(rows)
        scores = torch.full_like(queries.vectors[:, :1].expand(rows.shape), other)
        scores[ask] = self.veto(pairs[ask], rows[ask]).to(scores)
        return scores

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Refresh the other miner."""
        return self.miner.refresh(step, embed)

    def loss(
        self,
        queries: Float[Tensor, "b d"],
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Float[Tensor, ""]:
        """Train the other miner on all the candidates."""
        return self.miner.loss(queries, fresh, rows, within)

    def heed(self, reading: Reading) -> None:
        """Tell the other miner."""
        self.miner.heed(reading)

    def view(self, rows: Int[Tensor, " n"]) -> View | None:
        """Show what the other miner sees."""
        return self.miner.view(rows)

    def searches(self) -> list[Search]:
        """List the searches of the other miner."""
        return self.miner.searches()

    def row_tensors(self) -> dict[str, int]:
        """Name the tensors of the other miner."""
        return {f"miner.{name}": first for name, first in self.miner.row_tensors().items()}
