"""`correct` with the old model: a verdict before anything is written, then an adapter."""

import json
import shutil
from pathlib import Path

import faiss
import numpy as np
import pyarrow.parquet as pq
import pytest

from unstale.cli.main import main
from unstale.data.formats.beir import read_beir
from unstale.encoders.load import load_encoder
from unstale.migration.adapter import QueryAdapter
from unstale.migration.fusion import Judged
from unstale.migration.ways import WAYS, Trial
from unstale.written import foreign


@pytest.fixture(scope="module")
def old(beir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old index: what `tiny` makes of 120 targets."""
    path = tmp_path_factory.mktemp("old") / "old.npy"
    np.save(path, load_encoder("tiny").encode_document(list(read_beir(beir).targets)))
    return path


def correct(old: Path, beir: Path, output: Path, bert: Path, *more: str) -> int:
    words = ["correct", "--vectors", str(old), "--data", str(beir), "--output", str(output)]
    words += ["--model", str(bert), "--old-model", "tiny", "--count", "80", "--method", "linear"]
    return main([*words, *more])


def test_a_verdict_comes_first_and_an_adapter_when_asked_for(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr("unstale.migration.fused.LEAST_JUDGED", 5)
    words = ("--way", "verdict", "--price", "20", "--split", "test")
    assert correct(old, beir, tmp_path / "new", bert_folder, *words) == 0
    found = json.loads((tmp_path / "new" / "results.json").read_text())
    ways = {way["way"]: way for way in found["verdict"]["ways"]}
    assert tuple(ways) == WAYS
    assert found["verdict"]["advice"] in WAYS
    assert found["cost"]["relevant_embedded"] > 0
    left = 120 - 80 - found["cost"]["relevant_embedded"]
    assert ways["re-embed all"]["more_targets"] == left
    assert ways["re-embed all"]["money"] > 0
    assert ways["stay"]["money"] == 0
    served = [point["served"] for point in found["verdict"]["growth"]]
    assert served == [0, 10, 100]  # the queries that do not judge
    said = capsys.readouterr().out
    assert f"Advice: {found['verdict']['advice']}" in said
    assert "if what your queries fetch is embedded after each" in said
    made = {path.name for path in (tmp_path / "new").iterdir()}
    assert not made & {"vectors.npy", "adapter", "rows.parquet"}
    again = ["correct", "--resume", "--way", "query-side", "--output", str(tmp_path / "new")]
    assert main(again) == 0
    adapter = QueryAdapter.load(tmp_path / "new" / "adapter")
    assert adapter.matrix.shape[0] == np.load(old).shape[1]
    assert foreign(tmp_path / "new") == []
    sealed = json.loads((tmp_path / "new" / "files.json").read_text())["files"]
    assert "adapter/adapter.json" in sealed
    assert not (tmp_path / "new" / "vectors.npy").exists()


def test_a_migration_grows_until_everything_is_fresh(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    assert correct(old, beir, tmp_path / "new", bert_folder, "--re-embed", "10") == 0
    fresh = []
    for more in ("25", "40"):
        # A kill may leave the folder of a stage before its list of targets.
        (tmp_path / "new" / "embedded" / f"re-embedded-{2 + len(fresh)}").mkdir()
        again = ["correct", "--resume", "--re-embed", more, "--output", str(tmp_path / "new")]
        assert main(again) == 0
        rows = pq.read_table(tmp_path / "new" / "rows.parquet").to_pydict()
        assert rows["id"] == list(read_beir(beir).target_ids)
        fresh.append(sum(rows["is_fresh"]))
    assert fresh == [105, 120]
    stages = sorted(p.name for p in (tmp_path / "new" / "embedded").glob("re-*"))
    assert stages == ["re-embedded", "re-embedded-2", "re-embedded-3"]
    model = load_encoder(str(bert_folder))
    whole = model.encode_document(list(read_beir(beir).targets), normalize_embeddings=True)
    np.testing.assert_allclose(np.load(tmp_path / "new" / "vectors.npy"), whole, atol=1e-5)


def test_rows_in_another_order_are_refused_and_ids_put_them_right(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path, capsys
) -> None:
    order = np.random.default_rng(0).permutation(120)
    np.save(tmp_path / "moved.npy", np.load(old)[order])
    words = ("--way", "query-side")
    assert correct(tmp_path / "moved.npy", beir, tmp_path / "a", bert_folder, *words) == 2
    assert "are rows and texts in the same order?" in capsys.readouterr().err
    ids = np.array(list(read_beir(beir).target_ids))[order]
    (tmp_path / "ids.txt").write_text("\r\n".join(ids) + "\r\n", "utf-8-sig")  # as on Windows
    words += ("--ids", str(tmp_path / "ids.txt"))
    assert correct(tmp_path / "moved.npy", beir, tmp_path / "b", bert_folder, *words) == 0
    (tmp_path / "ids.txt").write_text("\n".join(ids[:-1]) + "\n")
    assert correct(tmp_path / "moved.npy", beir, tmp_path / "c", bert_folder, *words) == 2
    assert "119 lines, but there are 120 vectors" in capsys.readouterr().err
    (tmp_path / "ids.txt").write_bytes("\n".join(ids).encode("utf-16"))
    assert correct(tmp_path / "moved.npy", beir, tmp_path / "c", bert_folder, *words) == 2
    assert "ids.txt:1: not UTF-8" in capsys.readouterr().err


def test_ways_without_the_old_model_and_models_that_are_not_the_old_one_are_refused(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path, capsys
) -> None:
    words = ["correct", "--vectors", str(old), "--data", str(beir), "--count", "80"]
    words += ["--output", str(tmp_path / "new"), "--way", "query-side"]
    assert main(words) == 2
    assert "--way query-side needs --old-model" in capsys.readouterr().err
    assert main([*words, "--old-model", str(bert_folder)]) == 2
    assert "it did not make these" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_an_index_whose_scores_cannot_be_added_is_refused(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path, capsys
) -> None:
    """L2 distance ranks vectors of several lengths by no score that both models have."""
    index = faiss.IndexFlatL2(np.load(old).shape[1])
    index.add(np.load(old) * np.linspace(1, 2, 120, dtype=np.float32)[:, None])
    faiss.write_index(index, str(tmp_path / "old.faiss"))
    assert correct(tmp_path / "old.faiss", beir, tmp_path / "new", bert_folder) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "ranks by L2 distance, and its vectors are not of length one" in said


def test_the_relevant_targets_of_the_queries_that_judge_now_are_embedded(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path, monkeypatch
) -> None:
    """With one split, --re-embed takes half of its queries to choose by: others judge."""
    monkeypatch.setattr("unstale.migration.fused.LEAST_JUDGED", 5)
    data = tmp_path / "data"
    shutil.copytree(beir, data)
    for path in (data / "qrels").iterdir():
        if path.name != "train.tsv":
            path.unlink()
    known, run = [], Trial.run

    def watched(trial: Trial, judged: Judged):
        pairs = judged.qrels.pairs
        wanted = pairs[np.isin(pairs[:, 0], judged.rows), 1]
        known.append(np.isin(wanted, trial.relevant.rows.numpy()).all())
        return run(trial, judged)

    monkeypatch.setattr(Trial, "run", watched)
    words = ("--way", "verdict", "--queries", "12")
    assert correct(old, data, tmp_path / "new", bert_folder, *words) == 0
    again = ["correct", "--resume", "--re-embed", "10", "--output", str(tmp_path / "new")]
    assert main(again) == 0
    assert known == [True, True]
