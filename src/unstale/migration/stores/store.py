"""What must a vector database be able to do so that its vectors can be migrated?

A migration never writes to the collection that is served. It writes a second one, the shadow, in
the order of the rows, so that a killed migration can tell where to resume; `swap` is a step of its
own, and keeps the old vectors.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from numpy import ndarray

from unstale.data.dataset import Texts

BATCH = 4096  # rows read or written at once


@runtime_checkable
class Store(Protocol):
    """A collection of a vector database: rows in a fixed order, each with an id and a vector."""

    name: str  # of the collection that is read, whatever alias leads to it
    rows: int
    dim: int
    metric: str  # "inner product", "cosine" or "L2 distance"
    ids: Texts  # of all rows, in their order

    def scan(self, first: int, count: int) -> Float[ndarray, "count d"]:
        """Return the vectors of consecutive rows."""

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows."""

    def written(self, shadow: str) -> int:
        """Return how many rows, from the first on, the shadow holds; 0 if there is none."""

    def write(
        self, shadow: str, first: int, vectors: Float[ndarray, "n e"], fresh: Bool[ndarray, " n"]
    ) -> None:
        """Write consecutive rows to the shadow, which is made if need be, with all else they hold.

        To write a row again changes nothing. Each row says by `is_fresh` whether the new encoder
        made its vector.
        """

    def discard(self, shadow: str) -> None:
        """Delete a shadow that is to be written anew."""

    def current_ids(self) -> Sequence[str]:
        """Return the ids of the rows that there are now; some may have come or gone."""

    def shadow_ids(self, shadow: str) -> Sequence[str]:
        """Return the ids of the rows that the shadow holds."""

    def check_swap(self) -> None:
        """Refuse, with what to do, if this collection cannot be swapped."""

    def swap(self, shadow: str) -> str:
        """Serve the shadow instead; say what was done, and how to undo it."""
