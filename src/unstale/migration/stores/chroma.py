"""Vectors in a Chroma collection: of a server, or in a folder of a persistent client."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from unstale.data.dataset import Texts
from unstale.errors import InputError
from unstale.migration.stores.address import Address
from unstale.migration.stores.store import BATCH, client_of, joined, shadow_name

_METRICS = {"l2": "L2 distance", "ip": "inner product", "cosine": "cosine"}
_ALL = ["embeddings", "metadatas", "documents", "uris"]


@final
class ChromaStore:
    """A collection; rows are in the order in which Chroma lists them."""

    def __init__(self, address: Address) -> None:
        chromadb = client_of("chromadb", address)
        self.address, self.shadow = address, shadow_name(address, address.name)
        self.old = f"{address.name}-old"
        self.client = _connect(chromadb, address)
        if address.name not in self._names():
            there = ", ".join(self._names()) or "none"
            raise InputError(f"{address}: no such collection; there are {there}")
        self.collection = self._open(address.name)
        self.space = self._space()
        self.metric = _METRICS.get(self.space, self.space)
        self.batch = min(BATCH, int(self.client.get_max_batch_size()))
        self.read_rows()
        self.dim = self.take(np.arange(min(1, self.rows))).shape[1]

    def read_rows(self) -> None:
        """Read the ids of all rows."""
        self.keys, self.ids = self._read_ids(self.collection)
        self.rows = len(self.keys)

    def _names(self) -> list[str]:
        return [str(collection.name) for collection in self.client.list_collections()]

    def _open(self, name: str) -> Any:  # noqa: ANN401 - the client's own type
        return self.client.get_collection(name, embedding_function=None)

    def _space(self) -> str:
        """Return the distance of the index, which older collections keep in their metadata."""
        found = self.collection.configuration_json
        index = found.get("hnsw") or found.get("spann") or {}
        known = self.collection.metadata or {}
        return str(index.get("space") or known.get("hnsw:space") or "l2")

    def _read_ids(self, collection: Any) -> tuple[Texts, Texts]:  # noqa: ANN401
        """Return the ids of all rows, and those that the texts go by: a field may hold them."""
        keys: list[Texts] = []
        names: list[Texts] = []
        field = self.address.id
        include = ["metadatas"] if field else []
        while True:
            found = collection.get(include=include, limit=BATCH, offset=sum(map(len, keys)))
            here = []
            for place, key in enumerate(found["ids"]):
                name = (found["metadatas"][place] or {}).get(field) if field else key
                if name is None:
                    raise InputError(f"{self.address}, id {key}: no metadata field {field!r}")
                here.append(str(name))
            keys.append(Texts.of(found["ids"]))
            names.append(Texts.of(here))
            if not here:
                return joined(keys), joined(names)

    def _get(self, rows: Sequence[int], include: list[str]) -> dict[str, list[Any]]:
        """Return fields of some rows, in the order asked for."""
        asked = self.keys.take(rows)
        found = self.collection.get(ids=asked, include=include)
        place = {key: i for i, key in enumerate(found["ids"])}
        gone = [key for key in asked if key not in place]
        if gone:
            rule = "were deleted while they were read; run the command again with --resume"
            raise InputError(f"{self.address}: {len(gone)} rows, such as {gone[0]}, {rule}")
        order = [place[key] for key in asked]
        return {"ids": asked} | {name: [found[name][i] for i in order] for name in include}

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows."""
        parts = [
            np.array(self._get(rows[i : i + self.batch].tolist(), _ALL[:1])["embeddings"], "f4")
            for i in range(0, len(rows), self.batch)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)

    def scan(self, first: int, count: int) -> Float[ndarray, "count d"]:
        """Return the vectors of consecutive rows."""
        return self.take(np.arange(first, first + count))

    def written(self) -> int | None:
        """Count the rows of the shadow."""
        return int(self._open(self.shadow).count()) if self.shadow in self._names() else None

    def _shadow(self) -> Any:  # noqa: ANN401 - the client's own type
        """Open the shadow, or make it as the collection is."""
        if self.shadow in self._names():
            return self._open(self.shadow)
        known = {k: v for k, v in (self.collection.metadata or {}).items() if "hnsw:" not in k}
        return self.client.create_collection(
            self.shadow,
            metadata=known or None,
            configuration={"hnsw": {"space": self.space}},
            embedding_function=None,
        )

    def write(
        self, rows: Int[ndarray, " n"], vectors: Float[ndarray, "n e"], fresh: Bool[ndarray, " n"]
    ) -> None:
        """Upsert rows with their documents, URIs and metadata."""
        shadow = self._shadow()
        for start in range(0, len(vectors), self.batch):
            some = vectors[start : start + self.batch]
            old = self._get(rows[start : start + self.batch].tolist(), _ALL[1:])
            is_fresh = fresh[start : start + self.batch].tolist()
            known = zip(old["metadatas"], is_fresh, strict=True)
            shadow.upsert(
                ids=old["ids"],
                embeddings=some,
                metadatas=[(had or {}) | {"is_fresh": bool(now)} for had, now in known],
                documents=old["documents"],
                uris=old["uris"],
            )

    def discard(self) -> None:
        """Delete the shadow."""
        self.client.delete_collection(self.shadow)

    def drop(self, ids: Sequence[str]) -> None:
        """Delete rows of the shadow."""
        shadow, gone = self._open(self.shadow), set(ids)
        keys = [key for key, name in zip(*self._read_ids(shadow), strict=True) if name in gone]
        for start in range(0, len(keys), self.batch):
            shadow.delete(ids=keys[start : start + self.batch])

    def shadow_ids(self) -> Texts:
        """Return the ids of the shadow's rows."""
        return self._read_ids(self._open(self.shadow))[1]

    def check_swap(self) -> None:
        """Refuse if the collection of an earlier swap is in the way."""
        if self.old in self._names():
            rule = "is kept from an earlier swap; delete it first"
            raise InputError(f"--swap: {self.address} is to be renamed, but {self.old} {rule}")

    def swap(self) -> str:
        """Exchange the names, one after the other: Chroma cannot do both in one step."""
        self.check_swap()
        shadow, name = self._open(self.shadow), self.address.name
        self.collection.modify(name=self.old)
        shadow.modify(name=name)
        return f"the collection {name} is now what {self.shadow} was; {self.old} is kept"


def _connect(chromadb: Any, address: Address) -> Any:  # noqa: ANN401 - the client's own types
    """Open a server by its address, or a folder, which must be there."""
    quiet = chromadb.Settings(anonymized_telemetry=False)
    if "://" in address.place:
        secure, _, host = address.place.rstrip("/").partition("://")
        host, _, port = host.partition(":")
        many = {"port": int(port)} if port.isdigit() else {}
        return chromadb.HttpClient(host, ssl=secure == "https", settings=quiet, **many)
    if not Path(address.place).is_dir():
        raise InputError(f"{address}: no such folder; a server is http://HOST:8000")
    return chromadb.PersistentClient(address.place, settings=quiet)
