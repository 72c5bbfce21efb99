"""What every search answers: the best targets, and what it must remember."""

from abc import ABC, abstractmethod
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.errors import InputError
from unstale.search.added import Added
from unstale.search.best import TopK, drop


@final
class Asked(NamedTuple):
    """A batch of queries as a search sees it."""

    queries: Float[Tensor, "b d"]
    exclude: Int[Tensor, "b p"] | None = None  # rows never to find for each, padded with -1
    added: Added | None = None  # to the scores

    @property
    def width(self) -> int:
        """Return how many of the targets that are found for a query may be excluded."""
        return 0 if self.exclude is None else self.exclude.shape[1]

    def first(self, count: int) -> "Asked":
        """Return the same for the first queries."""
        exclude = None if self.exclude is None else self.exclude[:count]
        added = None if self.added is None else self.added.of(slice(count))
        return Asked(self.queries[:count], exclude, added)

    def allowed(self, best: TopK, k: int) -> TopK:
        """Keep the first k of each query that are not excluded."""
        return best if self.exclude is None else drop(best, self.exclude, k)


class Search(ABC):
    """Find the best targets of some queries; miners do not know which search they use."""

    def begin(self, step: int) -> None:  # noqa: B027 - most searches need nothing
        """Prepare for a training step, before its searches; by default nothing changes."""

    def remember(self, rows: Int[Tensor, " n"]) -> None:  # noqa: B027 - most read the memory
        """Take note that the residuals of some rows have changed; by default do nothing."""

    @torch.no_grad()
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        added: Added | None = None,
    ) -> TopK:
        """Return the k best targets of each query, none of which is among its excluded rows.

        An approximate search scores those approximately that are in the top k without doubt.
        """
        return self.find(Asked(queries, exclude, added), k)

    @abstractmethod
    def find(self, asked: Asked, k: int) -> TopK:
        """Do what `top_k` does; every search has its own way."""

    def rescore(
        self, found: TopK, low: Float[Tensor, "b 1"], high: Float[Tensor, "b 1"], asked: Asked
    ) -> TopK:
        """Score exactly what this search found between two scores; by default it is exact."""
        return found

    @property
    def readings(self) -> dict[str, float]:
        """Return what the search measured of itself, to be logged; by default nothing."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold to resume the search; by default nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Resume from the state of a checkpoint; by default there is none."""


def check_k(k: int, targets: int) -> None:
    """Refuse to take more targets than there are."""
    if k > targets:
        raise InputError(f"cannot take the top {k} of a buffer of {targets} targets")
