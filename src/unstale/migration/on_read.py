"""Re-embed on read: what queries fetch is embedded by the new model once, and kept.

The old index fetches, by the adapter's query; both models rank what was fetched. Quality rises with
use, for targets that nobody asks for need no fresh vector. Needs numpy and sqlite3 alone.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from unstale.errors import InputError
from unstale.migration.adapter import QueryAdapter

Embed = Callable[[Sequence[str]], Float[ndarray, "n e"]]  # the new model, from ids to vectors


@final
class FreshVectors:
    """Vectors of the new model by id, in a file that several processes may use.

    Example:
        >>> kept = FreshVectors(":memory:", 2)
        >>> kept.add(["a"], np.ones((1, 2), np.float32))
        >>> kept.take(["a", "b"]).tolist()
        [[1.0, 1.0], [nan, nan]]
    """

    def __init__(self, path: Path | str, dim: int) -> None:
        self.path, self.dim = path, dim
        self.file = sqlite3.connect(path)
        self.file.execute("CREATE TABLE IF NOT EXISTS fresh (id TEXT PRIMARY KEY, vector BLOB)")

    def __len__(self) -> int:
        return int(self.file.execute("SELECT count(*) FROM fresh").fetchone()[0])

    def take(self, ids: Sequence[str]) -> Float[ndarray, "n e"]:
        """Return the vectors of some ids; rows of NaN where there is none."""
        found = np.full((len(ids), self.dim), np.nan, np.float32)
        with closing(self.file.cursor()) as cursor:
            for row, id in enumerate(ids):
                kept = cursor.execute("SELECT vector FROM fresh WHERE id = ?", (id,)).fetchone()
                if kept is not None:
                    found[row] = np.frombuffer(kept[0], np.float32)
        return found

    def add(self, ids: Sequence[str], vectors: Float[ndarray, "n e"]) -> None:
        """Keep vectors; one that is there already is replaced."""
        if vectors.shape != (len(ids), self.dim):
            wanted = f"{len(ids)} vectors of width {self.dim}"
            raise InputError(f"{self.path}: expected {wanted}, got the shape {vectors.shape}")
        blobs = [vector.tobytes() for vector in np.asarray(vectors, np.float32)]
        with self.file:  # one transaction
            self.file.executemany(
                "INSERT OR REPLACE INTO fresh VALUES (?, ?)", zip(ids, blobs, strict=True)
            )


@final
class ReadThrough:
    """Rank what the old index fetched by both models; embed what has no fresh vector yet.

    Args:
        adapter: Whose query fetched it.
        kept: The fresh vectors so far, to which new ones are added.
        embed: The new model; it is given ids, the most promising first.
        budget: How many targets may be embedded in all. Those beyond it are ranked by what the
            adapter predicts of them.
    """

    def __init__(
        self, adapter: QueryAdapter, kept: FreshVectors, embed: Embed, budget: int | None = None
    ) -> None:
        self.adapter, self.kept, self.embed, self.budget = adapter, kept, embed, budget

    def rank(
        self,
        old: Float[ndarray, " d"],
        new: Float[ndarray, " e"],
        ids: Sequence[str],
        stale: Float[ndarray, "k d"],
    ) -> Int[ndarray, " k"]:
        """Return the order of the fetched targets, best first.

        Args:
            old: The old model's query.
            new: The new model's query.
            ids: The fetched targets, as the index ranked them.
            stale: Their vectors in the old index.
        """
        fresh = self.kept.take(ids)
        lacking = np.isnan(fresh).any(axis=1).nonzero()[0]
        if self.budget is not None:
            lacking = lacking[: max(0, self.budget - len(self.kept))]
        if len(lacking):
            some = [ids[row] for row in lacking]
            fresh[lacking] = self.embed(some)
            self.kept.add(some, fresh[lacking])
        scores = self.adapter.rescore(old, new, stale, fresh)
        return np.argsort(-scores, kind="stable")
