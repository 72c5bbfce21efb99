"""What must a vector database be able to do so that its vectors can be migrated?

A migration never writes to the collection that is served. It writes a second one, the shadow, whose
ids say what it lacks: of a killed migration, or of rows that came since. `swap` is a step of its
own, and keeps the old vectors.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from unstale.data.dataset import Texts
from unstale.errors import InputError
from unstale.migration.stores.address import Address

BATCH = 4096  # rows read or written at once


@runtime_checkable
class Store(Protocol):
    """A collection of a vector database: rows in a fixed order, each with an id and a vector."""

    shadow: str  # what the new vectors are written to, as an address names it after the `#`
    rows: int
    dim: int
    metric: str  # "inner product", "cosine" or "L2 distance"
    ids: Texts  # of all rows, in their order

    def read_rows(self) -> None:
        """Read which rows there are now, into `rows` and `ids`; some may have come or gone."""

    def scan(self, first: int, count: int) -> Float[ndarray, "count d"]:
        """Return the vectors of consecutive rows."""

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows."""

    def written(self) -> int | None:
        """Return how many rows the shadow holds; None if there is no shadow."""

    def write(
        self, rows: Int[ndarray, " n"], vectors: Float[ndarray, "n e"], fresh: Bool[ndarray, " n"]
    ) -> None:
        """Write rows that the shadow lacks, with all else they hold; it is made if need be.

        Each row says by `is_fresh` whether the new encoder made its vector.
        """

    def drop(self, ids: Sequence[str]) -> None:
        """Delete rows of the shadow, which the collection has no more."""

    def discard(self) -> None:
        """Delete a shadow that is to be written anew."""

    def shadow_ids(self) -> Texts:
        """Return the ids of the rows that the shadow holds."""

    def check_swap(self) -> None:
        """Refuse, with what to do, if this collection cannot be swapped."""

    def swap(self) -> str:
        """Serve the shadow instead; say what was done, and how to undo it."""


def joined(parts: Sequence[Texts]) -> Texts:
    """Put ids one after the other, without a copy.

    Example:
        >>> list(joined([Texts.of(["a", "b"]), Texts.of(["c"])]))
        ['a', 'b', 'c']
    """
    pieces = [piece for part in parts for piece in part.column.chunks]
    return Texts(pa.chunked_array(pieces, pa.large_string()))


def shadow_name(address: Address, served: str) -> str:
    """Name the shadow of a collection; one that was swapped in, and is served, keeps its name."""
    name = f"{address.name}-new"
    return f"{name}-2" if name == served else name


def client_of(package: str, address: Address) -> Any:  # noqa: ANN401 - a module without types
    """Import the client of a database; the error names the extra that installs it."""
    try:
        return import_module(package)
    except ImportError as error:
        rule = f"needs {error.name or package}: pip install 'unstale[{address.kind}]'"
        raise InputError(f"{address} {rule}") from None
