"""Uniform: targets drawn with equal chances."""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from unstale.errors import InputError
from unstale.miners.miner import Miner, Queries
from unstale.miners.strategy import built_by
from unstale.search.draws import UNIFORM, bits


@final
class Uniform(Miner):
    """Draw distinct targets for each query, keyed by (seed, step, query).

    Args:
        more: Targets to draw in addition to the k asked for, in the same draw: a second miner with
            the same key would draw the first ones again.
    """

    def __init__(self, targets: int, seed: int, more: int = 0) -> None:
        super().__init__()
        self.targets = targets
        self.seed = seed
        self.more = more

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b m"]:
        """Draw k rows and `more` for each query, none twice and none of its positives."""
        k += self.more
        if k > self.targets:
            raise InputError(f"cannot draw {k} of {self.targets} targets")
        # The scheme depends on k and N alone, so that a query draws alike in any company; and the
        # first k good draws of a longer sequence are those of a shorter one.
        if self.targets <= 16 * k + 256:  # a large share of few: rank every target by its number
            everything = torch.arange(self.targets, device=queries.rows.device)
            rows = self._bits(queries, everything).argsort(dim=1)
            chosen, enough = _distinct(rows, queries.positives, k)
        else:
            draws, enough = k + 4, False
            while not enough and draws <= 64 * self.targets:
                draws *= 2
                counter = torch.arange(draws, device=queries.rows.device)
                rows = self._bits(queries, counter) % self.targets
                chosen, enough = _distinct(rows, queries.positives, k)
        if not enough:
            raise InputError(f"cannot draw {k} targets for a query: too few are not its positives")
        return chosen

    def _bits(self, queries: Queries, rows: Int[Tensor, " n"]) -> Int[Tensor, "b n"]:
        return bits(UNIFORM, self.seed, queries.step, queries.rows, rows)


def _distinct(
    rows: Int[Tensor, "b n"], positives: Int[Tensor, "b p"], k: int
) -> tuple[Int[Tensor, "b k"], bool]:
    """Keep the first k of each row that are neither repeated nor positive, if there are k."""
    ordered, order = rows.sort(dim=1, stable=True)
    again = torch.zeros_like(rows, dtype=torch.bool)
    again.scatter_(1, order[:, 1:], ordered[:, 1:] == ordered[:, :-1])
    bad = again | (rows[:, :, None] == positives[:, None, :]).any(dim=2)
    if rows.shape[1] < k:
        return rows, False
    first = bad.int().argsort(dim=1, stable=True)[:, :k]
    return rows.gather(1, first), not bool(bad.gather(1, first).any())


# Its uniform negatives are of the same kind as its others, so that one draw gives both.
STRATEGY = built_by("uniform", lambda m: Uniform(m.targets, m.settings.seed, m.uniform_negatives))
