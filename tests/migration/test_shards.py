"""Parts of the embedding, run in any order as tasks of a job array, make the same files."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from unstale.cli.main import main
from unstale.data.formats.beir import read_beir
from unstale.encoders.embed import embed_targets
from unstale.encoders.load import load_encoder
from unstale.locks import release


def run(*words: str) -> None:
    assert main(list(words)) == 0
    release()  # as the end of the process does


def files(folder: Path) -> dict[str, bytes]:
    some = [p for p in folder.rglob("*") if p.suffix in (".safetensors", ".npy")]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in some}


def test_parts_of_a_buffer_out_of_order_are_those_of_one_process(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["embed", "--data", str(beir), "--model", "tiny", "--shard-rows", "16", "--output"]
    run(*words, str(tmp_path / "one"))
    parts = str(tmp_path / "parts")
    for part in ("2/3", "0/3", "0/3"):  # to run a part again changes nothing
        run(*words, parts, "--shard", part)
        assert "run the command once all parts are done" in capsys.readouterr().out
    run(*words, parts, "--shard", "1/3")
    assert "no piece is missing" in capsys.readouterr().out
    run(*words, parts, "--resume")
    assert " 0 embedded now" in capsys.readouterr().out
    assert files(tmp_path / "parts") == files(tmp_path / "one")
    manifests = [(tmp_path / n / "manifest.json").read_text() for n in ("one", "parts")]
    assert manifests[0] == manifests[1]
    assert not list((tmp_path / "parts").glob("*.sha256"))


def correct(data: Path, vectors: Path) -> list[str]:
    """Make old vectors; return the command that migrates them."""
    np.save(vectors, load_encoder("tiny").encode_document(list(read_beir(data).targets)))
    words = ["correct", "--vectors", str(vectors), "--data", str(data)]
    return [*words, "--model", "tiny", "--count", "80", "--method", "linear"]


@pytest.mark.slow
def test_a_migration_in_parts_is_that_of_one_process(
    beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unstale.migration.embed.SHARD_ROWS", 16)
    words = correct(beir, tmp_path / "old.npy")
    run(*words, "--output", str(tmp_path / "one"))
    for part in ("1/2", "0/2"):
        run(*words, "--output", str(tmp_path / "parts"), "--shard", part)
    run("correct", "--resume", "--output", str(tmp_path / "parts"))
    one, parts = files(tmp_path / "one"), files(tmp_path / "parts")
    assert set(one) == set(parts)
    assert all(parts[name] == data for name, data in one.items())


def test_a_migration_whose_parts_are_not_all_done_is_finished_by_one(
    beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unstale.migration.embed.SHARD_ROWS", 16)
    words = correct(beir, tmp_path / "old.npy")
    run(*words, "--output", str(tmp_path / "new"), "--shard", "0/2")
    run("correct", "--resume", "--output", str(tmp_path / "new"))
    run("verify", str(tmp_path / "new"))


def test_what_is_no_part_is_refused(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["embed", "--data", str(beir), "--model", "tiny", "--output", str(tmp_path / "new")]
    for wrong in ("3/3", "x", "1"):
        assert main([*words, "--shard", wrong]) == 2
        assert "--shard must be I/N" in capsys.readouterr().err


def test_rows_that_come_or_go_are_taken_into_account_on_resume(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    """Nothing that stays is embedded again, and a deleted row is in no list of targets."""
    monkeypatch.setattr("unstale.migration.embed.SHARD_ROWS", 16)
    monkeypatch.setattr("unstale.migration.changes.SHARD_ROWS", 16)
    dataset, embedded = read_beir(beir), []
    ids = np.array(list(dataset.target_ids))
    made = load_encoder("tiny").encode_document(list(dataset.targets))
    old, names, output = tmp_path / "old.npy", tmp_path / "ids.txt", tmp_path / "new"

    def have(rows: np.ndarray) -> None:
        np.save(old, made[rows])
        names.write_text("\n".join(ids[rows]) + "\n")

    def embed(model, tokens, rows, **options):
        embedded.extend(rows)
        return embed_targets(model, tokens, rows, **options)

    monkeypatch.setattr("unstale.buffer.embed.embed_targets", embed)
    have(np.arange(1, 120))
    words = ["correct", "--vectors", str(old), "--ids", str(names), "--data", str(beir)]
    words += ["--model", "tiny", "--count", "80", "--re-embed", "20", "--method", "linear"]
    run(*words, "--output", str(output))
    assert len(embedded) == 100
    (output / "files.json").unlink()  # as if it had been interrupted at its end
    assert pq.read_table(output / "embedded" / "ids.parquet")["id"].to_pylist() == list(ids[1:])
    picked = load_file(output / "embedded" / "sample" / "picked.safetensors")["rows"]
    gone = picked[3] + 1  # of all texts
    now = np.setdiff1d(np.arange(120)[::-1], [gone])[::-1]  # in another order, and with the first
    have(now)
    assert main(["correct", "--resume", "--shard", "0/2", "--output", str(output)]) == 2
    assert "1 rows were added and 1 deleted since; resume without" in capsys.readouterr().err
    embedded.clear()
    run("correct", "--resume", "--output", str(output))
    assert "1 rows were added and 1 deleted: they" in capsys.readouterr().out
    assert len(embedded) <= 1  # where it brings the enlarged sample back to its size
    rows = pq.read_table(output / "rows.parquet").to_pydict()
    assert rows["id"] == list(ids[now])
    stays = np.isin(ids[now], ids[1:][picked])
    assert np.array(rows["is_fresh"])[stays].all()
    vectors = np.load(output / "vectors.npy")
    np.testing.assert_allclose(vectors[stays], made[now][stays], atol=1e-5)
    monkeypatch.setattr("unstale.migration.changes.LEAST_LEFT", 0.9)
    have(now[:100])
    (output / "files.json").unlink()
    assert main(["correct", "--resume", "--output", str(output)]) == 2
    assert (
        "0 rows were added and 19 deleted since; migrate again with another --output"
        in capsys.readouterr().err
    )
