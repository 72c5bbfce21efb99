"""Parts of the embedding, run in any order as tasks of a job array, make the same files."""

from pathlib import Path

import numpy as np
import pytest

from unstale.cli.main import main
from unstale.data.formats.beir import read_beir
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


@pytest.mark.slow
def test_a_migration_in_parts_is_that_of_one_process(
    beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unstale.migration.embed.SHARD_ROWS", 16)
    targets = read_beir(beir).targets
    np.save(tmp_path / "old.npy", load_encoder("tiny").encode_document(list(targets)))
    words = ["correct", "--vectors", str(tmp_path / "old.npy"), "--data", str(beir)]
    words += ["--model", "tiny", "--count", "80", "--method", "linear", "--output"]
    run(*words, str(tmp_path / "one"))
    for part in ("1/2", "0/2"):
        run(*words, str(tmp_path / "parts"), "--shard", part)
    run("correct", "--resume", "--output", str(tmp_path / "parts"))
    one, parts = files(tmp_path / "one"), files(tmp_path / "parts")
    assert set(one) == set(parts)
    assert all(parts[name] == data for name, data in one.items())


def test_what_is_no_part_is_refused(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["embed", "--data", str(beir), "--model", "tiny", "--output", str(tmp_path / "new")]
    for wrong in ("3/3", "x", "1"):
        assert main([*words, "--shard", wrong]) == 2
        assert "--shard must be I/N" in capsys.readouterr().err


def test_rows_that_came_or_went_are_named_on_resume(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = read_beir(beir)
    ids = list(dataset.target_ids)
    old, names = tmp_path / "old.npy", tmp_path / "ids.txt"
    vectors = load_encoder("tiny").encode_document(list(dataset.targets))
    np.save(old, vectors[1:])
    names.write_text("\n".join(ids[1:]) + "\n")
    words = ["correct", "--vectors", str(old), "--ids", str(names), "--data", str(beir)]
    words += ["--model", "tiny", "--count", "80", "--method", "linear"]
    words += ["--output", str(tmp_path / "new")]
    run(*words, "--shard", "0/2")
    np.save(old, vectors[:-2])
    names.write_text("\n".join(ids[:-2]) + "\n")
    assert main(["correct", "--resume", "--output", str(tmp_path / "new")]) == 2
    release()
    said = capsys.readouterr().err
    assert "1 rows were added and 2 deleted since" in said
    assert ids[0] in said
