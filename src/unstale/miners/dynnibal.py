"""Dynnibal, a labelled reconstruction: a low-rank regression from stale to fresh, refitted.

The paper describes it in a sentence: a buffer maintained by "a low-rank regression model",
"updated every 500 steps on a sub-sample of targets", with full re-embeddings besides. What follows
is our reading, a ridge regression of reduced rank; the tree index of the original is left out,
since search here is exact for every method.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import Rows
from unstale.miners.exhaustive import Refreshed, rows_of
from unstale.miners.miner import Embed, Embedded, Miner, Queries, Ranked, View
from unstale.miners.stale import Stale
from unstale.miners.strategy import Materials, built_by
from unstale.schedule import Schedule
from unstale.search.draws import subset
from unstale.search.search import Search

_CHUNK = 16_384


@final
class Dynnibal(Miner):
    """Move the whole buffer by a regression that a fresh sample teaches, between refreshes."""

    def __init__(
        self,
        buffer: TargetBuffer,
        *,
        refits: Schedule,
        refreshes: Schedule,
        sample: int,
        rank: int,
        seed: int,
        ridge: float = 1e-2,
        gumbel_seed: int | None = None,
    ) -> None:
        super().__init__()
        self.base = Refreshed(buffer, refreshes)  # stale as of the last full refresh
        self.moved = buffer.in_memory(buffer.device)  # a copy, of the same precision
        self.searched = Stale(self.moved, gumbel_seed)
        self.refits = refits
        self.sample = min(sample, len(buffer))
        self.rank = rank
        self.ridge = ridge
        self.seed = seed

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k of the regressed buffer."""
        return self.searched.mine(queries, k)

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Re-embed everything, or refit the regression on a sample, if it is time."""
        full = self.base.refresh(step, embed)
        if not full.refreshed and not self.refits.due(step):
            return Embedded()
        move = None
        if not full.refreshed:
            rows = subset(len(self.moved), self.sample, self.seed, step).to(self.moved.device)
            move = low_rank_ridge(self.base.buffer[rows], embed(rows), self.rank, self.ridge)
        for start, stale in self.base.buffer.local.chunks(_CHUNK):
            here = torch.arange(start, start + len(stale), device=stale.device)
            self.moved.write(here, stale if move is None else stale + stale @ move)
        return full if full.refreshed else Embedded(sampled=self.sample)

    def view(self, rows: Int[Tensor, " n"]) -> View:
        """Show the last full refresh, and where the regression moved it."""
        return View(self.base.buffer[rows], self.moved[rows])

    def ranked(
        self, queries: Float[Tensor, "q d"], k: int, exclude: Int[Tensor, "q p"] | None = None
    ) -> Ranked:
        """Find the k best targets by the last full refresh, and by the regressed buffer."""
        moved = self.searched.ranked(queries, k, exclude)
        return Ranked(self.base.ranked(queries, k, exclude).stale, moved.stale)

    def searches(self) -> list[Search]:
        """List the search of the buffer."""
        return self.searched.searches()

    def row_tensors(self) -> dict[str, Rows]:
        """Name both buffers: that of the last full refresh, and where the regression moved it."""
        own = {f"base.{name}": rows for name, rows in self.base.row_tensors().items()}
        return own | rows_of(self.moved)


def low_rank_ridge(
    stale: Float[Tensor, "m d"], fresh: Float[Tensor, "m d"], rank: int, ridge: float
) -> Float[Tensor, "d d"]:
    """Fit `fresh - stale` by `stale @ W`, W of at most that rank (reduced-rank regression)."""
    drift = fresh.to(stale.device) - stale
    penalty = ridge * len(stale) / stale.shape[1] * torch.eye(stale.shape[1], device=stale.device)
    whole = torch.linalg.solve(stale.T @ stale + penalty, stale.T @ drift)
    # The leading right singular vectors of the fitted drift span the best subspace of that rank.
    _, _, directions = torch.linalg.svd(stale @ whole, full_matrices=False)
    kept = directions[:rank]
    return whole @ kept.T @ kept


def _build(materials: Materials) -> Miner:
    chosen, baseline = materials.settings, materials.baseline
    return Dynnibal(
        materials.whole,
        refits=materials.schedule,
        # Inside the run, not at its end: with 2, after a third and two thirds.
        refreshes=Schedule.inside(baseline.full_refreshes, chosen.steps),
        sample=baseline.sample_size or materials.twentieth,
        rank=baseline.rank,
        seed=chosen.seed,
        gumbel_seed=materials.gumbel_seed,
    )


STRATEGY = built_by("dynnibal", _build)
