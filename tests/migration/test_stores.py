"""Databases: one contract for all of them, and a shadow that a killed write resumes to the row."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.migration.store_families import FAMILIES, family_of

from unstale.corrector.closed_form import Affine
from unstale.corrector.projected import ProjectedCorrector
from unstale.errors import InputError
from unstale.migration.index import Known, write_index
from unstale.migration.stale import NewIndex, check_values
from unstale.migration.stores import qdrant
from unstale.migration.stores import vectors as stores
from unstale.migration.stores.address import KINDS, Address
from unstale.migration.stores.store import Store
from unstale.migration.stores.vectors import StoreVectors
from unstale.migration.vectors import open_vectors

ROWS, DIM, WIDER, BATCH = 40, 6, 9, 16
IDS = sorted(f"d{i}" for i in range(ROWS))  # as a database with text keys has them


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch) -> None:
    monkeypatch.setattr(stores, "BATCH", BATCH)


@pytest.fixture
def stale() -> np.ndarray:
    return unit(0, DIM)


def unit(seed: int, width: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(ROWS, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(params=FAMILIES)
def kind(request) -> str:
    return request.param


@pytest.fixture
def address(kind, stale, tmp_path) -> str:
    """A collection `docs` with ids in the order of rows, each with a text."""
    family = family_of(kind)
    place = tmp_path / "base"
    place.mkdir()
    return family.add(place, stale, IDS)


def close(source: StoreVectors) -> None:
    """Let go of a folder that only one client can have open."""
    if source.format == "qdrant":
        source.store.client.close()


def read(address: str) -> np.ndarray:
    source = open_vectors(address)
    try:
        assert list(source.ids) == IDS
        return source.take(np.arange(source.rows))
    finally:
        close(source)


def new_index(source, vectors, folder, identity="one") -> NewIndex:
    fresh = np.arange(ROWS) % 3 == 0
    first = source.resume_at(folder, identity)
    pieces = ((s, vectors[s : s + len(v)]) for s, v in source.chunks_from(first))
    return NewIndex(pieces, vectors.shape[1], fresh, {})


def test_the_families_are_all_the_kinds_of_databases() -> None:
    assert tuple(FAMILIES) == tuple(stores.STORES) == KINDS


def test_vectors_and_ids_are_read_by_row(address, stale) -> None:
    source = open_vectors(address)
    assert isinstance(source.store, Store)
    assert (source.rows, source.dim, source.store.metric) == (ROWS, DIM, "cosine")
    assert list(source.ids) == IDS
    whole = np.concatenate([v for _, v in source.chunks(7)])
    np.testing.assert_allclose(whole, stale, atol=1e-6)
    rows = np.array([20, 3, 7])
    np.testing.assert_allclose(source.take(rows), stale[rows], atol=1e-6)
    close(source)


def test_vectors_are_read_as_a_collection_ranks_them(kind, stale, tmp_path) -> None:
    """By cosine the length of a vector does not count, so both models' scores can be added."""
    longer = stale * np.linspace(0.5, 4, ROWS, dtype=np.float32)[:, None]
    source = open_vectors(family_of(kind).add(tmp_path, longer, IDS))
    np.testing.assert_allclose(source.take(np.arange(ROWS)), stale, atol=1e-6)
    assert check_values(source)
    source.store.metric = "inner product"
    assert not check_values(source)
    close(source)


def test_a_killed_write_is_resumed_and_swapped_only_when_told(
    kind, address, stale, tmp_path
) -> None:
    vectors = unit(1, WIDER)
    source = open_vectors(address)
    whole = new_index(source, vectors, tmp_path)
    halted = NewIndex(
        (piece for _, piece in zip(range(2), whole.vectors, strict=False)), *whole[1:]
    )
    with pytest.raises(InputError, match="32 rows after writing"):
        source.write(tmp_path, halted)
    assert source.resume_at(tmp_path, "one") == 2 * BATCH
    assert source.store.written() == 2 * BATCH
    np.testing.assert_allclose(source.take(np.arange(ROWS)), stale, atol=1e-6)  # untouched
    shadow = source.write(tmp_path, new_index(source, vectors, tmp_path))
    assert str(shadow).endswith("#docs?vector=vector_new" if kind == "pgvector" else "#docs-new")
    assert "kept" in source.swap(tmp_path)
    close(source)
    np.testing.assert_allclose(read(address), vectors, atol=1e-6)
    told = {i: (i * 2, row % 3 == 0) for row, i in enumerate(IDS)}
    assert FAMILIES[kind].payload(address) == told


def test_rows_that_come_or_go_meanwhile_are_followed(kind, address, stale, tmp_path) -> None:
    """Added rows are corrected and deleted ones dropped; until then a swap is refused."""
    source = open_vectors(address)
    source.write(tmp_path, new_index(source, unit(1, WIDER), tmp_path))
    close(source)
    FAMILIES[kind].grow(address, delete="d7", add="late")  # it has the old vector of d0
    source = open_vectors(address)
    gone = 0 if kind == "pgvector" else 1  # where a deleted row takes its new vector along
    with pytest.raises(InputError, match=rf"1 rows were added and {gone} deleted .*late"):
        source.swap(tmp_path)

    def correct(vectors: np.ndarray) -> np.ndarray:
        np.testing.assert_allclose(vectors, stale[[0]], atol=1e-6)
        return unit(2, WIDER)[:1]

    assert source.follow(correct) == (1, gone)
    assert source.follow(correct) == (0, 0)
    source.swap(tmp_path)
    close(source)
    served = open_vectors(address)
    assert sorted(served.ids) == sorted({*IDS, "late"} - {"d7"})
    found = served.take(served.ids.find(["late", "d8"]))
    expected = [unit(2, WIDER)[0], unit(1, WIDER)[IDS.index("d8")]]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    close(served)
    assert not FAMILIES[kind].payload(address)["late"][1]  # it is not fresh


def test_a_shadow_with_other_vectors_is_written_anew_or_is_none_of_ours(
    kind, address, stale, tmp_path
) -> None:
    source = open_vectors(address)
    same = ProjectedCorrector(Affine(torch.eye(DIM), torch.zeros(DIM)), unit=True)
    for rows in ([3], [3, 20]):  # the second as after --re-embed
        fresh = torch.nn.functional.one_hot(torch.tensor(rows) % DIM, DIM).float()
        shadow, _ = write_index(source, same, Known(torch.tensor(rows), fresh), tmp_path, {})
        expected = stale.copy()
        expected[rows] = fresh.numpy()
        close(source)
        field = "?id=doc" if kind == "qdrant" else ""
        place = str(shadow).replace("postgresql:/", "postgresql://")
        np.testing.assert_allclose(read(place + field), expected, atol=1e-6)
        source = open_vectors(address)
    other = tmp_path / "other"
    with pytest.raises(InputError, match="exists, and it was not written by"):
        write_index(source, same, Known(torch.tensor([3]), fresh[:1]), other, {})
    source.store.swap()
    close(source)
    again = open_vectors(address)  # never is what is served the shadow
    end = {"qdrant": "-new-2", "pgvector": "?vector=vector_new"}.get(kind, "-new")
    assert again.store.shadow == f"docs{end}"
    assert again.store.written() == (ROWS if kind == "lancedb" else None)
    close(again)


def test_an_empty_shadow_of_another_width_is_made_anew(address, tmp_path) -> None:
    """A killed migration leaves one; the next may write vectors of both models."""
    source = open_vectors(address)
    assert source.store.written() is None
    assert source.resume_at(tmp_path, "one") == 0
    some = np.arange(2)
    source.store.write(some, unit(1, WIDER)[:2], np.ones(2, np.bool_))
    source.store.drop(source.ids.take(some))
    assert source.store.written() == 0
    assert source.resume_at(tmp_path, "one") == 0  # the same, so it is kept
    assert source.store.written() == 0
    assert source.resume_at(tmp_path, "both") == 0
    assert source.store.written() is None
    source.write(tmp_path, new_index(source, unit(1, DIM + WIDER), tmp_path, "both"))
    close(source)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.replace("#docs", "#dogs"), "no such|does not exist"),
        (lambda a: a.replace("base", "nowhere"), "no such|does not exist"),
        (lambda a: a.partition("#")[0] + "#", "expected"),
    ],
)
def test_what_is_not_there_is_named(address, change, message) -> None:
    with pytest.raises(InputError, match=message):
        open_vectors(change(address))


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_package_is_named_with_its_extra(kind, monkeypatch) -> None:
    for package in FAMILIES[kind].packages:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"pip install 'unstale\[{kind}\]'"):
        open_vectors(f"{kind}:nowhere#docs")


def test_a_busy_qdrant_server_has_minutes_to_answer() -> None:
    """Its client gives up after five seconds, which a piece of a million rows can take."""
    client = SimpleNamespace(QdrantClient=dict)
    asked = qdrant._connect(client, Address.read("qdrant:http://host:6333#docs"))
    assert asked["url"] == "http://host:6333"
    assert asked["timeout"] >= 60
