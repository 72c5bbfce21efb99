"""Databases: what is read from them, and a shadow that a killed write resumes to the row."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from unstale.cli.main import main
from unstale.corrector.closed_form import Affine
from unstale.corrector.projected import ProjectedCorrector
from unstale.data.formats.beir import read_beir
from unstale.encoders.load import load_encoder
from unstale.errors import InputError
from unstale.migration.index import Known, write_index
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


def new_index(source, vectors, folder) -> NewIndex:
    fresh = np.arange(ROWS) % 3 == 0
    first = source.resume_at(folder, "one")
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
    whole = new_index(source, vectors, tmp_path)
    halted = NewIndex(
        (piece for _, piece in zip(range(2), whole.vectors, strict=False)), *whole[1:]
    )
    with pytest.raises(InputError, match="128 rows after writing"):
        source.write(tmp_path, halted)
    assert source.resume_at(tmp_path, "one") == 128
    np.testing.assert_allclose(source.take(np.array([5])), stale[[5]], atol=1e-6)  # untouched
    shadow = source.write(tmp_path, new_index(source, vectors, tmp_path))
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


def test_a_shadow_with_other_vectors_is_written_anew_or_is_none_of_ours(
    address, stale, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(stores, "BATCH", 64)
    source = open_vectors(address)
    same = ProjectedCorrector(Affine(torch.eye(DIM), torch.zeros(DIM)), unit=True)
    for rows in ([3], [3, 200]):  # the second as after --re-embed
        fresh = torch.nn.functional.one_hot(torch.tensor(rows) % DIM, DIM).float()
        write_index(source, same, Known(torch.tensor(rows), fresh), tmp_path, {})
        expected = stale.copy()
        expected[rows] = fresh.numpy()
        assert list(source.store.shadow_ids("docs-new")) == list(source.ids)
        if address.startswith("qdrant"):
            points = source.store.client.retrieve("docs-new", range(ROWS), with_vectors=True)
            found = {int(point.id): point.vector for point in points}
            written = np.array([found[row] for row in range(ROWS)])
        else:
            column = source.store.database.open_table("docs-new").to_arrow()["vector"]
            written = np.array(column.to_pylist())
        np.testing.assert_allclose(written, expected, atol=1e-6)
    other = tmp_path / "other"
    with pytest.raises(InputError, match="docs-new exists, and it was not written by"):
        write_index(source, same, Known(torch.tensor([3]), fresh[:1]), other, {})
    source.store.swap("docs-new")
    if address.startswith("qdrant"):
        source.store.client.close()
        assert open_vectors(address).shadow == "docs-new-2"  # never what is served


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


def test_a_table_is_migrated_grown_and_swapped_by_the_command(
    beir: Path, bert_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lancedb = pytest.importorskip("lancedb", reason="needs unstale[lancedb]")
    dataset = read_beir(beir)
    order = np.random.default_rng(0).permutation(len(dataset.targets))
    made = load_encoder("tiny").encode_document(dataset.targets.take(order))
    flat = pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1)), made.shape[1])
    table = pa.table({"id": dataset.target_ids.take(order), "vector": flat})
    base = lancedb.connect(tmp_path / "base")
    base.create_table("docs", table)
    output = ["--output", str(tmp_path / "new")]
    words = ["correct", "--vectors", f"lancedb:{tmp_path / 'base'}#docs", "--data", str(beir)]
    words += ["--model", str(bert_folder), "--count", "80", "--method", "linear", *output]
    assert main(words) == 0
    for more in (["--re-embed", "20"], ["--re-embed", "40", "--swap"]):
        assert main(["correct", "--resume", *more, *output]) == 0
    assert "now has the rows of docs-new" in capsys.readouterr().out
    served = base.open_table("docs").to_arrow()
    assert served["is_fresh"].to_pylist() == [True] * 120
    assert served["id"].to_pylist() == dataset.target_ids.take(order)
    whole = load_encoder(str(bert_folder)).encode_document(
        dataset.targets.take(order), normalize_embeddings=True
    )
    np.testing.assert_allclose(np.array(served["vector"].to_pylist()), whole, atol=1e-5)
    assert main(["correct", "--resume", "--re-embed", "10", *output]) == 2  # of what is gone
    assert "changed since" in capsys.readouterr().err
