"""One index of both models ranks by the weighed sum of both models' scores."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tests.migration.store_families import family_of

from unstale import JoinedQueries
from unstale.cli.main import main
from unstale.data.formats.beir import read_beir
from unstale.encoders.load import load_encoder
from unstale.errors import InputError
from unstale.migration.index import Joined


def unit(seed: int, rows: int, dim: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_product_of_joined_vectors_is_the_weighed_score(tmp_path: Path) -> None:
    old, new, old_query, new_query = (unit(s, 20, 3 + s % 2) for s in range(4))
    join = JoinedQueries(weight=0.3, scale=1.7)
    index = join(old, new)
    np.testing.assert_allclose(np.linalg.norm(index, axis=1), 1, atol=1e-6)  # so cosine ranks alike
    scores = JoinedQueries.load(join.save(tmp_path).parent)(old_query, new_query) @ index.T
    expected = 0.3 * old_query @ old.T + 0.7 * 1.7 * new_query @ new.T
    np.testing.assert_allclose(scores * (0.3 + 0.7 * 1.7), expected, atol=1e-6)
    alone = JoinedQueries(weight=1.0, scale=1.0)(old_query, new_query)
    np.testing.assert_allclose(alone, np.concatenate([old_query, 0 * new_query], axis=1), atol=1e-6)
    network = Joined(torch.nn.Identity(), join)
    twice = network(torch.from_numpy(old).float()).numpy()
    np.testing.assert_allclose(twice, join(old, old), atol=1e-6)
    with pytest.raises(InputError, match="was not made with --fuse"):
        JoinedQueries.load(tmp_path / "none")


@pytest.mark.parametrize("kind", ["npy", "lancedb"])
def test_an_index_of_both_models_is_written(
    kind: str, beir: Path, bert_folder: Path, tmp_path: Path, capsys
) -> None:
    dataset = read_beir(beir)
    ids = list(dataset.target_ids)
    stale = load_encoder("tiny").encode_document(list(dataset.targets))
    place = str(tmp_path / "old.npy")
    if kind == "npy":
        np.save(place, stale)
    else:
        (tmp_path / "base").mkdir()
        place = family_of(kind).add(tmp_path / "base", stale, ids)
    output = ["--output", str(tmp_path / "new")]
    words = ["correct", "--vectors", place, "--data", str(beir), "--model", str(bert_folder)]
    words += ["--count", "80", "--method", "linear", *output]
    assert main([*words, "--fuse"]) == 2
    assert "--fuse needs --old-model" in capsys.readouterr().err
    words += ["--old-model", "tiny"]
    assert main([*words, "--fuse", "--way", "query-side"]) == 2
    assert "--fuse is for --way rewrite" in capsys.readouterr().err
    assert main(words) == 0
    assert main(["correct", "--resume", "--fuse", *output]) == 0
    found = json.loads((tmp_path / "new" / "results.json").read_text())["vectors"]
    join = JoinedQueries.load(tmp_path / "new")
    assert found["joined"] == {"weight": join.weight, "scale": join.scale}
    if kind == "npy":
        vectors = np.load(tmp_path / "new" / "vectors.npy")
    else:
        import lancedb

        table = lancedb.connect(tmp_path / "base").open_table("docs-new").to_arrow()
        vectors = np.array(table["vector"].to_pylist())
    fresh = load_encoder(str(bert_folder)).encode_document(
        list(dataset.targets), normalize_embeddings=True
    )
    assert vectors.shape == (120, stale.shape[1] + fresh.shape[1])
    known = np.array(pq.read_table(tmp_path / "new" / "rows.parquet")["is_fresh"].to_pylist())
    assert known.sum() == 80
    np.testing.assert_allclose(vectors[known], join(stale, fresh)[known], atol=1e-5)
    apart = vectors[~known, : stale.shape[1]]  # the old vectors are kept in all rows
    np.testing.assert_allclose(apart, join.parts()[0] * stale[~known], atol=1e-5)


def test_a_damaged_description_is_named(tmp_path: Path) -> None:
    (tmp_path / "joined.json").write_text('{"weight": 0.5}', "utf-8")
    with pytest.raises(InputError, match=r"joined\.json does not say how queries are joined"):
        JoinedQueries.load(tmp_path)
