"""An exact search in instalments: did the approximate one find what it should have?

A renewal pass corrects every row by one version of h. So for a few queries that were answered when
the pass began, the exact answer comes together row by row, at no cost but their own scores.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.search.band import agreement
from unstale.search.best import TopK, drop, merge_best, nothing

_QUERIES = 4


@final
class Audit:
    """Compare the answers to a few queries with those of exact search, once a pass ends."""

    def __init__(self) -> None:
        self._queries: Float[Tensor, "c d"] | None = None
        self._answers: Int[Tensor, "c k"] = torch.zeros(0, 0, dtype=torch.long)
        self._exclude: Int[Tensor, "c p"] = torch.zeros(0, 0, dtype=torch.long)
        self._best: TopK | None = None

    def begin(
        self,
        queries: Float[Tensor, "b d"],
        answers: Int[Tensor, "b k"],
        exclude: Int[Tensor, "b p"] | None,
    ) -> None:
        """Remember some queries and their answers under the h with which a pass begins."""
        self._queries = queries[:_QUERIES].detach().clone()
        self._answers = answers[:_QUERIES].clone()
        none = answers.new_zeros(len(answers), 0)
        self._exclude = (none if exclude is None else exclude)[:_QUERIES].clone()
        self._best = nothing(self._queries)

    def add(self, rows: Int[Tensor, " n"], corrected: Float[Tensor, "n d"]) -> None:
        """Consider the next rows of the pass."""
        if self._queries is None or self._best is None:
            return
        scores = self._queries @ corrected.to(self._queries.device).T
        everyone = rows.to(self._queries.device).expand(len(self._queries), -1)
        fetch = self._answers.shape[1] + self._exclude.shape[1]
        self._best = merge_best(self._best, TopK(scores, everyone), fetch)

    def end(self) -> float | None:
        """Return the overlap with exact search; None if nothing was asked in this pass."""
        best, self._queries, self._best = self._best, None, None
        if best is None:
            return None
        return agreement(drop(best, self._exclude, self._answers.shape[1]).rows, self._answers)

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold."""
        if self._queries is None or self._best is None:
            return {}
        state = {"queries": self._queries, "answers": self._answers, "exclude": self._exclude}
        state |= {"scores": self._best.scores, "rows": self._best.rows}
        return {f"audit.{name}": tensor.clone() for name, tensor in state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where another left off."""
        self._queries = self._best = None
        if "audit.queries" in state:
            self._queries = state["audit.queries"].clone()
            self._answers, self._exclude = state["audit.answers"], state["audit.exclude"]
            self._best = TopK(state["audit.scores"], state["audit.rows"])
