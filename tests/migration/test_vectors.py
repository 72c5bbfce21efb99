"""Every format goes in and comes out; every broken one is refused, and none is modified."""

import hashlib
import json
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as torch_save_file

from unstale.buffer.buffer import TargetBuffer, write_manifest, write_shard
from unstale.corrector.closed_form import Affine
from unstale.corrector.projected import ProjectedCorrector
from unstale.errors import InputError
from unstale.migration.index import Known, write_index
from unstale.migration.stale import NewIndex, check_values
from unstale.migration.vectors import open_vectors

ROWS, DIM = 37, 6
NONE = np.zeros(ROWS, np.bool_)  # of the rows are fresh
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
NAMES = (
    "v.npy",
    "half.npy",
    "v.safetensors",
    "v.parquet",
    "v.faiss",
    "ids.faiss",
    "buffer",
    "int8",
)


def stored(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".npy"):
        np.save(path, VECTORS.astype(np.float16 if name.startswith("half") else np.float32))
    elif name.endswith(".safetensors"):
        save_file({"vectors": VECTORS, "other": VECTORS[:2]}, path)
    elif name.endswith(".parquet"):
        lists = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.reshape(-1)), DIM)
        ids = pa.array([f"t{i}" for i in range(ROWS)])
        pq.write_table(pa.table({"id": ids, "embedding": lists}), path, row_group_size=10)
    elif name.endswith(".faiss"):
        index = faiss.IndexFlatIP(DIM)
        if name.startswith("ids"):
            index = faiss.IndexIDMap2(index)
            index.add_with_ids(VECTORS, np.arange(ROWS) * 3 + 100)
        else:
            index.add(VECTORS)
        faiss.write_index(index, str(path))
    else:
        dtype = "int8" if name == "int8" else "float32"
        shards = []
        for i, part in enumerate((VECTORS[:20], VECTORS[20:])):
            written = write_shard(path / f"s{i}.safetensors", torch.from_numpy(part), dtype)
            shards.append({"file": f"s{i}.safetensors", "rows": len(part), "sha256": written})
        manifest = {"format": 1, "fingerprint": {"weights": "a"}, "dim": DIM, "dtype": dtype}
        write_manifest(path, manifest | {"shards": shards})
    return path


def tolerance(name: str) -> dict[str, float]:
    """Say how exactly a file holds its numbers; int8 has 127 steps to each row's largest."""
    if name == "int8":
        return {"rtol": 0, "atol": float(2 * np.abs(VECTORS).max() / 254)}  # the wider are twice
    return {"rtol": 1e-3, "atol": 1e-3} if name.startswith("half") else {"rtol": 1e-6}


def digest(path: Path) -> str:
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_reads_by_rows_and_by_pieces(tmp_path: Path, name: str) -> None:
    source = open_vectors(stored(tmp_path, name))
    close = tolerance(name)
    assert (source.rows, source.dim) == (ROWS, DIM)
    pieces = list(source.chunks(8))
    assert [start for start, _ in pieces] == list(np.cumsum([0, *[len(v) for _, v in pieces]])[:-1])
    np.testing.assert_allclose(np.concatenate([v for _, v in pieces]), VECTORS, **close)
    some = np.array([30, 2, 2, 19, 36])
    np.testing.assert_allclose(source.take(some), VECTORS[some], **close)


@pytest.mark.parametrize("name", NAMES)
def test_writes_what_it_read_in_another_width_and_leaves_the_input_alone(
    tmp_path: Path, name: str
) -> None:
    path = stored(tmp_path, name)
    before = digest(path)
    source = open_vectors(path)
    wider = np.concatenate([2 * VECTORS, VECTORS[:, :2]], axis=1)

    def pieces():
        for start, v in source.chunks():
            yield start, wider[start : start + len(v)]

    out = source.write(tmp_path / "out", NewIndex(pieces(), DIM + 2, NONE, {"weights": "b"}))
    again = open_vectors(out)
    assert (again.format, again.rows, again.dim) == (source.format, ROWS, DIM + 2)
    assert again.dtype == source.dtype
    found = np.concatenate([v for _, v in again.chunks()])
    np.testing.assert_allclose(found, wider, **tolerance(name))
    assert digest(path) == before
    if name == "v.safetensors":  # what others read, too
        np.testing.assert_array_equal(load_file(out)["vectors"], wider)
    if name == "v.parquet":
        assert pq.read_table(out).column("id").to_pylist()[:2] == ["t0", "t1"]
    if name == "ids.faiss":
        # Row 5 had the id 5 * 3 + 100.
        np.testing.assert_array_equal(faiss.read_index(str(out)).reconstruct(115), wider[5])
    if name == "buffer":
        assert torch.equal(
            TargetBuffer.open(out, {"weights": "b"})[torch.tensor([3])][0],
            torch.from_numpy(wider[3]),
        )


def test_a_buffer_is_written_in_a_shard_for_each_piece(tmp_path: Path) -> None:
    source = open_vectors(stored(tmp_path, "buffer"))
    out = source.write(tmp_path / "out", NewIndex(source.chunks(7), DIM, NONE, {}))
    shards = json.loads((out / "manifest.json").read_text())["shards"]
    assert [s["rows"] for s in shards] == [7, 7, 6, 7, 7, 3]  # of 20 and 17
    np.testing.assert_array_equal(open_vectors(out).take(np.arange(ROWS)), VECTORS)


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_index_is_written_whatever_the_pieces_it_is_read_in(
    tmp_path: Path, name: str
) -> None:
    """Shards of 20 and 17 rows, and row groups of ten, are not the pieces of other files."""
    source = open_vectors(stored(tmp_path, name))
    known = Known(torch.tensor([25]), torch.full((1, DIM), 0.5))
    (tmp_path / "new").mkdir()
    same = ProjectedCorrector(Affine(torch.eye(DIM), torch.zeros(DIM)))
    path, _ = write_index(source, same, known, tmp_path / "new", {"weights": "b"})
    found = open_vectors(path).take(np.arange(ROWS))
    expected = np.where(np.arange(ROWS)[:, None] == 25, 0.5, VECTORS)
    np.testing.assert_allclose(found, expected, **tolerance(name))


def test_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", VECTORS[0])
    np.save(tmp_path / "int.npy", VECTORS.astype(np.int32))
    np.save(tmp_path / "object.npy", np.array([{}, 1], object), allow_pickle=True)
    (tmp_path / "torn.npy").write_bytes(stored(tmp_path, "v.npy").read_bytes()[:200])
    (tmp_path / "torn.safetensors").write_bytes(
        stored(tmp_path, "v.safetensors").read_bytes()[:-40]
    )
    (tmp_path / "bad.safetensors").write_bytes(b"nothing at all")
    save_file({"a": VECTORS, "b": VECTORS}, tmp_path / "two.safetensors")
    torch_save_file({"vectors": torch.ones(3, 2).bfloat16()}, tmp_path / "bf16.safetensors")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "none.parquet")
    pq.write_table(pa.table({"vector": [[1.0]], "embedding": [[1.0]]}), tmp_path / "both.parquet")
    pq.write_table(pa.table({"vector": [None, [1.0]]}), tmp_path / "null.parquet")
    pq.write_table(
        pa.table({"vector": pa.array([[], []], pa.list_(pa.float32()))}), tmp_path / "thin.parquet"
    )
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    (tmp_path / "bad.faiss").write_bytes(b"xxxx")
    (tmp_path / "v.txt").write_text("1 2 3")
    (tmp_path / "empty").mkdir()
    cases = {
        "flat.npy": r"rows x dimensions, found the shape \(6,\)",
        "int.npy": "found int32",
        "object.npy": "not an npy file of numbers",
        "torn.npy": "not an npy file",
        "torn.safetensors": "not a safetensors file",
        "bad.safetensors": "not a safetensors file",
        "two.safetensors": "a, b: which are the vectors",
        "bf16.safetensors": "expected F16, F32, F64 numbers, found BF16",
        "both.parquet": "has the columns vector and embedding: keep one",
        "none.parquet": "no column vector or embedding.*it has id",
        "null.parquet": "null.parquet, row 0: no vector",
        "thin.parquet": "thin.parquet, row 0: no vector",
        "bad.parquet": "not a parquet file",
        "bad.faiss": "not a faiss index",
        "v.txt": "unknown format '.txt'",
        "empty": "without manifest.json",
        "absent.npy": "no such file",
    }
    for name, message in cases.items():
        with pytest.raises(InputError, match=message):
            open_vectors(tmp_path / name)


def test_an_index_that_would_end_the_process_is_named(tmp_path: Path) -> None:
    index = faiss.IndexIVFPQFastScan(faiss.IndexFlatL2(DIM), DIM, 2, 2, 4)
    index.train(VECTORS)
    index.add(VECTORS)
    faiss.write_index(index, str(tmp_path / "fast.faiss"))
    with pytest.raises(InputError, match="IndexIVFPQFastScan cannot return its vectors"):
        open_vectors(tmp_path / "fast.faiss")


def test_an_index_that_cannot_return_its_vectors_is_named(tmp_path: Path) -> None:
    coarse = faiss.IndexFlatL2(DIM)
    index = faiss.IndexIVFSpectralHash(coarse, DIM, 2, 8, 1.0)
    index.train(VECTORS)
    index.add(VECTORS)
    faiss.write_index(index, str(tmp_path / "hash.faiss"))
    with pytest.raises(InputError, match="type IndexIVFSpectralHash cannot return its vectors"):
        open_vectors(tmp_path / "hash.faiss")


def test_an_ivf_index_returns_its_vectors(tmp_path: Path) -> None:
    index = faiss.index_factory(DIM, "IVF2,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(VECTORS)
    index.add(VECTORS)
    faiss.write_index(index, str(tmp_path / "ivf.faiss"))
    source = open_vectors(tmp_path / "ivf.faiss")
    np.testing.assert_array_equal(np.concatenate([v for _, v in source.chunks(9)]), VECTORS)


def test_an_ivf_index_with_ids_of_its_own_has_no_rows(tmp_path: Path) -> None:
    index = faiss.index_factory(DIM, "IVF2,Flat")
    index.train(VECTORS)
    index.add_with_ids(VECTORS, np.arange(ROWS) + 1000)
    faiss.write_index(index, str(tmp_path / "ivf.faiss"))
    with pytest.raises(InputError, match="IndexIVFFlat with ids other than 0 to 36: which vector"):
        open_vectors(tmp_path / "ivf.faiss")


def test_large_lists_are_lists(tmp_path: Path) -> None:
    lists = pa.array(VECTORS.tolist(), pa.large_list(pa.float32()))  # as polars writes them
    pq.write_table(pa.table({"vector": lists}), tmp_path / "v.parquet")
    source = open_vectors(tmp_path / "v.parquet")
    np.testing.assert_array_equal(source.take(np.array([30, 2])), VECTORS[[30, 2]])
    out = source.write(tmp_path / "out", NewIndex(source.chunks(), DIM, NONE, {}))
    np.testing.assert_array_equal(open_vectors(out).take(np.arange(ROWS)), VECTORS)


def test_what_is_left_behind_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_vectors(stored(tmp_path, "v.safetensors"))
    assert "only its tensor `vectors` is read and written, not other" in caplog.text


@pytest.mark.parametrize(("value", "message"), [(np.nan, "NaN or infinity"), (0, "a zero vector")])
def test_bad_values_are_named_by_row(tmp_path: Path, value: float, message: str) -> None:
    bad = VECTORS.copy()
    bad[23] = value
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(InputError, match=f"bad.npy, row 23: {message}"):
        check_values(open_vectors(tmp_path / "bad.npy"))


def test_a_parquet_row_of_another_width_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"vector": [[1.0, 2.0], [1.0, 2.0], [3.0]]}), tmp_path / "v.parquet")
    with pytest.raises(InputError, match="row 2: a vector of width 1, not 2"):
        check_values(open_vectors(tmp_path / "v.parquet"))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.reshape(-1)), DIM)
    table = pa.table([lists, lists], names=["vector", "vector"])
    pq.write_table(table, tmp_path / "v.parquet")
    with pytest.raises(InputError, match="the columns vector and vector: keep one"):
        open_vectors(tmp_path / "v.parquet")


@pytest.mark.parametrize(("name", "factor"), [("half.npy", 1e6), ("v.npy", 1e39)])
def test_corrected_vectors_that_are_not_finite_as_written_are_refused(
    name: str, factor: float, tmp_path: Path
) -> None:
    source = open_vectors(stored(tmp_path, name))
    corrector = torch.nn.Linear(DIM, DIM, bias=False)
    with torch.no_grad():
        corrector.weight.copy_(torch.eye(DIM) * factor)
    known = Known(torch.zeros(0, dtype=torch.long), torch.zeros(0, DIM))
    with pytest.raises(InputError, match=r"float16 cannot hold|row 0 has NaN or infinity"):
        write_index(source, corrector, known, tmp_path / "out", {})
    assert not list((tmp_path / "out").glob("*"))
