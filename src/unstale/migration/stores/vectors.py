"""Vectors in a database, as a migration reads and writes them."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from unstale.budget import read_object
from unstale.data.dataset import Texts
from unstale.errors import InputError
from unstale.files import write_json
from unstale.migration.stale import CHUNK, NewIndex, StaleVectors
from unstale.migration.stores.address import Address
from unstale.migration.stores.chroma import ChromaStore
from unstale.migration.stores.lance import LanceStore
from unstale.migration.stores.postgres import PostgresStore
from unstale.migration.stores.qdrant import QdrantStore
from unstale.migration.stores.sqlite import SqliteStore
from unstale.migration.stores.store import BATCH, Store

Correct = Callable[[Float[ndarray, "n d"]], Float[ndarray, "n e"]]
MARK = "shadow.json"  # in the output folder: what was written to the database
STORES: dict[str, Callable[[Address], Store]] = {
    "qdrant": QdrantStore,
    "lancedb": LanceStore,
    "chroma": ChromaStore,
    "pgvector": PostgresStore,
    "sqlite-vec": SqliteStore,
}


@final
class StoreVectors(StaleVectors):
    """The vectors of a store; new ones go to a collection of their own, never to the old one."""

    dtype = np.dtype(np.float32)

    def __init__(self, address: Address, store: Store) -> None:
        self.format, self.path, self.address, self.store = (
            address.kind,
            Path(str(address)),
            address,
            store,
        )
        self.rows, self.dim, self.ids = store.rows, store.dim, store.ids
        self.lacking = np.ones(self.rows, np.bool_)  # in the shadow
        # Cosine ranks unit vectors as the inner product does, and others as their encoder does not.
        self.metric = "L2 distance" if store.metric == "cosine" else store.metric
        self.shadow = f"{address.kind}:{address.place}#{store.shadow}"
        if not self.rows:
            raise InputError(f"{address} is empty")

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield consecutive rows."""
        return self._pieces(0, size)

    def chunks_from(self, first: int) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield the rows from `first` on."""
        return self._pieces(first, BATCH)

    def _pieces(self, first: int, size: int) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        for start in range(first, self.rows, size):
            yield start, self._ranked(self.store.scan(start, min(size, self.rows - start)))

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows, and read no others."""
        return self._ranked(self.store.take(rows))

    def _ranked(self, vectors: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Return vectors as the collection ranks them: by their direction alone, if by cosine."""
        if self.store.metric != "cosine":
            return vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(norms, np.finfo(np.float32).tiny)

    def resume_at(self, folder: Path, identity: str) -> int:
        """Return from which row on the shadow lacks some; rows that are gone leave it.

        One that this migration filled with other vectors is written anew, and one that it did not
        make is refused. Pieces begin where they would without an interruption: a product of other
        shapes may differ in its last bits.
        """
        path, name = folder / MARK, self.shadow
        begun = read_object(path) if path.is_file() else {}
        there = self.store.written()
        if there is not None and begun.get("shadow") != name:
            rule = f"it was not written by the migration in {folder}"
            raise InputError(f"{name} exists, and {rule}: delete it, and use --resume")
        if there is not None and begun.get("identity") != identity:
            self.store.discard()  # an empty one, too: it may be of another width
            there = None
        write_json(path, {"shadow": name, "identity": identity})
        if there:
            self._compare()
        left = np.flatnonzero(self.lacking)
        return int(left[0]) // BATCH * BATCH if len(left) else self.rows

    def _compare(self) -> int:
        """See what the shadow lacks, and drop what the collection has no more; count that."""
        ids = self.store.shadow_ids()
        place = ids.rows_in(self.store.ids)
        self.lacking = np.ones(self.rows, np.bool_)
        self.lacking[place[place >= 0]] = False
        if gone := ids.take(np.flatnonzero(place < 0)):
            self.store.drop(gone)
        return len(gone)

    def write(self, folder: Path, new: NewIndex) -> Path:
        """Write the shadow, piece by piece."""
        for start, vectors in new.vectors:
            here = np.flatnonzero(self.lacking[start : start + len(vectors)])
            if len(here):
                vectors = np.asarray(vectors, np.float32)[here]
                self.store.write(start + here, vectors, new.fresh[start + here])
        found = self.store.written() or 0
        if found != self.rows:
            raise InputError(
                f"{self.shadow} has {found} rows after writing, {self.address} {self.rows}"
            )
        return Path(self.shadow)

    def check_swap(self) -> None:
        """Refuse a collection that cannot be swapped, before anything is written."""
        self.store.check_swap()

    def follow(self, correct: Correct) -> tuple[int, int]:
        """Bring the shadow up to what the collection holds now; return the rows added and deleted.

        Rows that came while the shadow was written are corrected.
        """
        self.store.read_rows()
        self.rows, self.ids = self.store.rows, self.store.ids
        deleted = self._compare()
        left = np.flatnonzero(self.lacking)
        for start in range(0, len(left), BATCH):
            rows = left[start : start + BATCH]
            self.store.write(rows, correct(self.take(rows)), np.zeros(len(rows), np.bool_))
        return len(left), deleted

    def swap(self, folder: Path) -> str:
        """Serve the shadow, unless rows of the old collection came or went meanwhile."""
        self.store.read_rows()
        now, then = self.store.ids, self.store.shadow_ids()
        added = now.take(np.flatnonzero(now.rows_in(then) < 0))
        deleted = then.take(np.flatnonzero(then.rows_in(now) < 0))
        if added or deleted:
            some = ", ".join(sorted(added + deleted)[:3])
            rule = f"{len(added)} rows were added and {len(deleted)} deleted"
            hint = "run the command again with --resume --swap"
            raise InputError(f"{self.address} is not swapped: {rule} just now ({some}); {hint}")
        served = self._digests(_some(now))
        write_json(folder / MARK, read_object(folder / MARK) | {"served": served})
        return self.store.swap()

    def was_swapped(self, folder: Path) -> bool:
        """Say whether the swap that a migration began was done.

        Then none of the vectors that were served before it is served now. Rows that were added,
        deleted or updated since are no sign of a swap.
        """
        path = folder / MARK
        before = read_object(path).get("served", {}) if path.is_file() else {}
        place = self.store.ids.find(list(before))
        left = place[place >= 0]
        now = self._digests(left) if len(left) else {}
        return bool(now) and all(before[id] != digest for id, digest in now.items())

    def _digests(self, rows: Int[ndarray, " n"]) -> dict[str, str]:
        """Hash the vectors of some rows, by their ids."""
        pairs = zip(self.store.ids.take(rows), self.take(rows), strict=True)
        return {id: hashlib.sha256(vector.tobytes()).hexdigest() for id, vector in pairs}

    def some_digest(self) -> str:
        """Hash a few vectors, which a swap changes."""
        return hashlib.sha256(self.take(_some(self.store.ids)).tobytes()).hexdigest()


def _some(ids: Texts) -> Int[ndarray, " n"]:
    """Return the few rows by which vectors are recognised."""
    return np.arange(min(64, len(ids)))


def open_store(vectors: str) -> StoreVectors:
    """Open a collection or table by its address, as `qdrant:PLACE#COLLECTION`."""
    address = Address.read(vectors)
    return StoreVectors(address, STORES[address.kind](address))
