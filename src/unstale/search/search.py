"""What every search answers: the best targets, and what it must remember."""

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor

from unstale.errors import InputError
from unstale.search.added import Added
from unstale.search.best import TopK
from unstale.search.vectors import Vectors


class Search(ABC):
    """Find the best targets of some queries; miners do not know which search they use."""

    def begin(self, step: int) -> None:  # noqa: B027 - most searches need nothing
        """Prepare for a training step, before its searches; by default nothing changes."""

    @abstractmethod
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        added: Added | None = None,
    ) -> TopK:
        """Return the k best targets of each query, none of which is among its excluded rows."""

    def rescore(
        self,
        found: TopK,
        low: Float[Tensor, "b 1"],
        high: Float[Tensor, "b 1"],
        queries: Float[Tensor, "b d"],
        added: Added | None,
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


def check_k(k: int, vectors: Vectors) -> None:
    """Refuse to take more targets than there are."""
    if k > len(vectors):
        raise InputError(f"cannot take the top {k} of a buffer of {len(vectors)} targets")
