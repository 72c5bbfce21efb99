"""Databases: what is read from them, and a shadow that a killed write resumes to the row."""

import numpy as np
import pyarrow as pa
import pytest

from unstale.errors import InputError
from unstale.migration.stale import NewIndex
from unstale.migration.stores import vectors as stores
from unstale.migration.vectors import open_vectors

ROWS, DIM, WIDER = 300, 6, 9


@pytest.fixture
def stale() -> np.ndarray:
    vectors = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(params=["qdrant", "lancedb"])
def address(request, stale, tmp_path) -> str:
    """A collection `docs` with ids d0, d1, ... and one more field."""
    names = [f"d{i}" for i in range(ROWS)]
    place = tmp_path / "base"
    place.mkdir()
    if request.param == "qdrant":
        client = pytest.importorskip("qdrant_client", reason="needs unstale[qdrant]")
        models, base = client.models, client.QdrantClient(path=str(place))
        size = models.VectorParams(size=DIM, distance=models.Distance.COSINE)
        base.create_collection("docs-1", vectors_config=size)
        points = [
            models.PointStruct(id=i, vector=v.tolist(), payload={"doc": n, "text": n * 2})
            for i, (n, v) in enumerate(zip(names, stale, strict=True))
        ]
        base.upsert("docs-1", points)
        alias = models.CreateAlias(collection_name="docs-1", alias_name="docs")
        base.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
        base.close()
        return f"qdrant:{place}#docs?id=doc"
    lancedb = pytest.importorskip("lancedb", reason="needs unstale[lancedb]")
    flat = pa.FixedSizeListArray.from_arrays(pa.array(stale.reshape(-1)), DIM)
    table = pa.table({"id": names, "text": [n * 2 for n in names], "vector": flat})
    lancedb.connect(place).create_table("docs", table)
    return f"lancedb:{place}#docs"


def new_index(source, vectors) -> NewIndex:
    fresh = np.arange(ROWS) % 3 == 0
    first = source.written()
    pieces = ((s, vectors[s : s + len(v)]) for s, v in source.chunks_from(first))
    return NewIndex(pieces, WIDER, fresh, {})


def test_vectors_and_ids_are_read_by_row(address, stale) -> None:
    source = open_vectors(address)
    assert (source.rows, source.dim) == (ROWS, DIM)
    assert list(source.ids)[:2] == ["d0", "d1"]
    whole = np.concatenate([v for _, v in source.chunks(77)])
    np.testing.assert_allclose(whole, stale, atol=1e-6)
    rows = np.array([200, 3, 77])
    np.testing.assert_allclose(source.take(rows), stale[rows], atol=1e-6)


def test_a_killed_write_is_resumed_and_swapped_only_when_told(
    address, stale, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(stores, "BATCH", 64)
    vectors = np.random.default_rng(1).normal(size=(ROWS, WIDER)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    source = open_vectors(address)
    whole = new_index(source, vectors)
    halted = NewIndex(
        (piece for _, piece in zip(range(2), whole.vectors, strict=False)), *whole[1:]
    )
    with pytest.raises(InputError, match="128 rows after writing"):
        source.write(tmp_path, halted)
    assert source.written() == 128
    np.testing.assert_allclose(source.take(np.array([5])), stale[[5]], atol=1e-6)  # untouched
    shadow = source.write(tmp_path, new_index(source, vectors))
    assert str(shadow).endswith("#docs-new")
    assert list(source.store.shadow_ids("docs-new")) == list(source.ids)
    said = source.store.swap("docs-new")
    assert "kept" in said
    if address.startswith("qdrant"):
        source.store.client.close()
    again = open_vectors(address)
    assert again.dim == WIDER
    np.testing.assert_allclose(again.take(np.arange(ROWS)), vectors, atol=1e-6)
    if address.startswith("lancedb"):
        table = again.store.table.to_arrow()
        assert table["text"].to_pylist()[:2] == ["d0d0", "d1d1"]
        assert table["is_fresh"].to_pylist()[:4] == [True, False, False, True]
    else:
        points = again.store._points([0, 1], payload=True)
        assert [p.payload for p in points] == [
            {"doc": "d0", "text": "d0d0", "is_fresh": True},
            {"doc": "d1", "text": "d1d1", "is_fresh": False},
        ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.replace("#docs", "#dogs"), "no such"),
        (lambda a: a.replace("base#", "nowhere#"), "no such folder"),
        (lambda a: a.partition("#")[0] + "#", "expected"),
    ],
)
def test_what_is_not_there_is_named(address, change, message) -> None:
    with pytest.raises(InputError, match=message):
        open_vectors(change(address))
