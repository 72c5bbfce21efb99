"""Uniform: targets drawn with equal chances."""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from unstale.errors import InputError
from unstale.miners.miner import Miner, Queries
from unstale.search.draws import bits


@final
class Uniform(Miner):
    """Draw k distinct targets for each query, keyed by (seed, step, query)."""

    def __init__(self, targets: int, seed: int) -> None:
        super().__init__()
        self.targets = targets
        self.seed = seed

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Draw k rows for each query, none twice and none of its positives."""
        if k > self.targets:
            raise InputError(f"cannot draw {k} of {self.targets} targets")
        draws = 2 * k + queries.positives.shape[1] + 8
        while draws < self.targets:
            counter = torch.arange(draws, device=queries.rows.device)
            rows = bits(self.seed, queries.step, queries.rows, counter) % self.targets
            chosen, enough = _distinct(rows, queries.positives, k)
            if enough:
                return chosen
            draws *= 2
        # So many of so few: rank every target by its random number instead.
        everything = torch.arange(self.targets, device=queries.rows.device)
        rows = bits(self.seed, queries.step, queries.rows, everything).argsort(dim=1)
        chosen, enough = _distinct(rows, queries.positives, k)
        if not enough:
            raise InputError(f"cannot draw {k} targets for a query: too few are not its positives")
        return chosen


def _distinct(
    rows: Int[Tensor, "b n"], positives: Int[Tensor, "b p"], k: int
) -> tuple[Int[Tensor, "b k"], bool]:
    """Keep the first k of each row that are neither repeated nor positive, if there are so many."""
    ordered, order = rows.sort(dim=1, stable=True)
    again = torch.zeros_like(rows, dtype=torch.bool)
    again.scatter_(1, order[:, 1:], ordered[:, 1:] == ordered[:, :-1])
    bad = again | (rows[:, :, None] == positives[:, None, :]).any(dim=2)
    if rows.shape[1] < k:
        return rows, False
    first = bad.int().argsort(dim=1, stable=True)[:, :k]
    return rows.gather(1, first), not bool(bad.gather(1, first).any())
