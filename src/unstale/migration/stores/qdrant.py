"""Vectors in a Qdrant collection: of a server, or of the client's local mode."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from unstale.data.dataset import Texts
from unstale.errors import InputError
from unstale.migration.stores.address import Address, only_one
from unstale.migration.stores.store import BATCH, client_of, joined, shadow_name

_METRICS = {"Dot": "inner product", "Cosine": "cosine", "Euclid": "L2 distance"}
TIMEOUT = 300  # seconds for an answer; the client's own 5 are too few for a busy server
_WHOLE = ""  # the name of the vector in a collection that has only one


@final
class QdrantStore:
    """A collection, or an alias of one, which `swap` needs; rows are in the order of point ids."""

    def __init__(self, address: Address) -> None:
        qdrant_client = client_of("qdrant_client", address)
        self.address, self.models = address, qdrant_client.models
        self.client = _connect(qdrant_client, address)
        aliases = {a.alias_name: a.collection_name for a in self.client.get_aliases().aliases}
        self.is_alias = address.name in aliases
        self.collection = aliases.get(address.name, address.name)
        self.shadow = shadow_name(address, self.collection)
        if not self.client.collection_exists(self.collection):
            there = ", ".join(c.name for c in self.client.get_collections().collections) or "none"
            raise InputError(f"{address}: no such collection; there are {there}")
        self.config = self.client.get_collection(self.collection).config.params
        self.named = isinstance(self.config.vectors, dict)
        kinds = self.config.vectors if self.named else {_WHOLE: self.config.vectors}
        self.vector = only_one(
            list(kinds), address.vector if self.named else _WHOLE, "vector", address
        )
        self.dim = int(kinds[self.vector].size)
        others = [*kinds, *(self.config.sparse_vectors or {})]
        self.others = [name for name in others if name != self.vector]
        distance = str(kinds[self.vector].distance.value)
        self.metric = _METRICS.get(distance, distance)
        self.read_rows()

    def read_rows(self) -> None:
        """Read the ids of all points."""
        self.points, self.ids = self._read_ids(self.collection)
        self.rows = len(self.points)

    def _read_ids(self, collection: str) -> tuple[Texts, Texts]:
        """Return the ids of all points, and those that the texts go by: a field may hold them."""
        points: list[Texts] = []
        names: list[Texts] = []
        field, offset = self.address.id, None
        while True:
            found, offset = self.client.scroll(
                collection, limit=BATCH, offset=offset, with_vectors=False,
                with_payload=[field] if field else False,
            )  # fmt: skip
            here = []
            for point in found:
                name = (point.payload or {}).get(field) if field else point.id
                if name is None:
                    raise InputError(f"{self.address}, point {point.id}: no field {field!r}")
                here.append(str(name))
            points.append(Texts.of([str(point.id) for point in found]))
            names.append(Texts.of(here))
            if offset is None:
                return joined(points), joined(names)

    def _points(self, rows: Sequence[int], *, payload: bool) -> list[Any]:
        """Return points in the order asked for: the vectors that count, or what goes with them."""
        asked = _point_ids(self.points.take(rows))
        some: list[str] | bool = not payload
        if self.named:
            some = self.others if payload else [self.vector]
        found = self.client.retrieve(
            self.collection, asked, with_vectors=some, with_payload=payload
        )
        by_id = {point.id: point for point in found}
        gone = [id for id in asked if id not in by_id]
        if gone:
            rule = "were deleted while they were read; run the command again with --resume"
            raise InputError(f"{self.address}: {len(gone)} points, such as {gone[0]}, {rule}")
        return [by_id[id] for id in asked]

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows."""
        found = np.empty((len(rows), self.dim), np.float32)
        for start in range(0, len(rows), BATCH):
            some = self._points(rows[start : start + BATCH].tolist(), payload=False)
            vectors = [p.vector[self.vector] if self.named else p.vector for p in some]
            found[start : start + len(some)] = vectors
        return found

    def scan(self, first: int, count: int) -> Float[ndarray, "count d"]:
        """Return the vectors of consecutive rows."""
        return self.take(np.arange(first, first + count))

    def written(self) -> int | None:
        """Count the rows of the shadow."""
        if not self.client.collection_exists(self.shadow):
            return None
        return int(self.client.count(self.shadow, exact=True).count)

    def _create(self, dim: int) -> None:
        """Make the shadow as the collection is, but for the width of the vector."""
        kinds = self.config.vectors if self.named else {_WHOLE: self.config.vectors}
        sized = {name: kind.model_copy() for name, kind in kinds.items()}
        sized[self.vector].size = dim
        self.client.create_collection(
            self.shadow,
            vectors_config=sized if self.named else sized[_WHOLE],
            sparse_vectors_config=self.config.sparse_vectors,
        )

    def write(
        self, rows: Int[ndarray, " n"], vectors: Float[ndarray, "n e"], fresh: Bool[ndarray, " n"]
    ) -> None:
        """Upsert points with the payload and the other vectors that they have."""
        if not self.client.collection_exists(self.shadow):
            self._create(vectors.shape[1])
        for start in range(0, len(vectors), BATCH):
            some = vectors[start : start + BATCH]
            old = self._points(rows[start : start + BATCH].tolist(), payload=True)
            points = [
                self.models.PointStruct(
                    id=point.id,
                    vector=(point.vector or {}) | {self.vector: new} if self.named else new,
                    payload=(point.payload or {}) | {"is_fresh": bool(is_fresh)},
                )
                for point, new, is_fresh in zip(
                    old, some.tolist(), fresh[start:].tolist(), strict=False
                )
            ]
            self.client.upsert(self.shadow, points, wait=True)

    def discard(self) -> None:
        """Delete the shadow."""
        self.client.delete_collection(self.shadow)

    def drop(self, ids: Sequence[str]) -> None:
        """Delete points of the shadow."""
        gone, pairs = set(ids), zip(*self._read_ids(self.shadow), strict=True)
        points = _point_ids([point for point, name in pairs if name in gone])
        for start in range(0, len(points), BATCH):
            self.client.delete(self.shadow, points[start : start + BATCH], wait=True)

    def shadow_ids(self) -> Texts:
        """Return the ids of the shadow's rows."""
        return self._read_ids(self.shadow)[1]

    def check_swap(self) -> None:
        """Refuse a name that is not an alias."""
        if not self.is_alias:
            rule = "is a collection, not an alias, and a collection cannot change its name"
            hint = "let the application search an alias of it, and name that in --vectors"
            raise InputError(f"--swap: {self.address} {rule}; {hint}")

    def swap(self) -> str:
        """Let the alias mean the shadow, in one step."""
        self.check_swap()
        alias, models = self.address.name, self.models
        away = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
        made = models.CreateAlias(collection_name=self.shadow, alias_name=alias)
        steps = [away, models.CreateAliasOperation(create_alias=made)]
        self.client.update_collection_aliases(steps)
        return f"the alias {alias} now means {self.shadow}; {self.collection} is kept"


def _point_ids(written: Sequence[str]) -> list[int | str]:
    """Read point ids: numbers, or UUIDs, which have hyphens."""
    return [int(id) if id.isdigit() else id for id in written]


def _connect(qdrant_client: Any, address: Address) -> Any:  # noqa: ANN401 - the client's own type
    """Open a server by its address, or a folder of the local mode, which must be there."""
    if "://" in address.place:
        key = os.environ.get("QDRANT_API_KEY")
        return qdrant_client.QdrantClient(url=address.place, api_key=key, timeout=TIMEOUT)
    if not Path(address.place).is_dir():
        raise InputError(f"{address}: no such folder; a server is http://HOST:6333")
    try:
        return qdrant_client.QdrantClient(path=address.place)
    except RuntimeError as error:  # another process has it open
        raise InputError(f"{address}: {error}") from None
