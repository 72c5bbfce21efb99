"""`unstale convert`, from any format to any other."""

import json
from pathlib import Path

import pytest

from unstale.cli.main import main
from unstale.data.load import load_dataset


def convert(data: str, to: str, output: Path, *more: str) -> int:
    return main(["convert", "--data", data, "--to", to, "--output", str(output), *more])


def test_a_chain_of_formats_keeps_every_pair(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, data = load_dataset(str(beir)), str(beir)
    for name in ("dpr", "parquet", "tevatron-inline", "hf", "flagembedding", "beir"):
        assert convert(data, name, tmp_path / name) == 0
        data = str(tmp_path / name)
    after = load_dataset(data)

    def pairs(dataset, split):
        rows = dataset.split(split).pairs
        texts = (dataset.queries.take(rows[:, 0]), dataset.targets.take(rows[:, 1]))
        return set(zip(*texts, strict=True))

    for split in ("train", "dev", "test"):
        assert pairs(after, split) == pairs(before, split)
    shown = capsys.readouterr().out
    assert "120 targets, 120 queries; pairs: 20 in dev, 20 in test, 80 in train" in shown
    assert "parquet cannot store: query ids, answers" in shown


def test_named_columns_of_a_table_are_read(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("asked,reply\nhow?,so\nwhy?,thus\n")
    assert convert(f"{tmp_path}/faq.csv:query=asked,positive=reply", "beir", tmp_path / "b") == 0
    lines = (tmp_path / "b" / "corpus.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["so", "thus"]


@pytest.mark.parametrize(
    ("data", "to", "rule"),
    [
        ("{beir}", "word", "unknown format 'word'; choose from beir, msmarco"),
        ("{beir}", "ir_datasets", "ir_datasets can be read, but not written"),
        ("", "beir", "--data is required"),
        ("{here}", "beir", "no format fits"),
        ("{here}", "beir", "dpr: JSON with question and positive_ctxs"),
        ("{here}/bad.csv:query=asked,positive=reply", "beir", "no column reply"),
        ("dpr:{here}", "beir", "no JSON file there holds examples"),
        ("csv:/no/such.csv", "beir", "cannot read the data '/no/such.csv': there is no such"),
        ("somebody/no-such-set", "beir", "cannot load the dataset 'somebody/no-such-set'"),
        ("ir_datasets:no/such", "beir", "ir_datasets"),
    ],
)
def test_bad_input_is_one_clear_error_and_writes_nothing(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str, to: str, rule: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "bad.csv").write_text("asked,other\n1,2\n")
    assert convert(data.format(beir=beir, here=here), to, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert rule in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


def test_overwriting_does_not_delete_what_is_read(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert convert(str(beir), "dpr", out) == 0
    assert convert(f"dpr:{out}", "beir", out, "--overwrite") == 2
    assert "--overwrite would delete" in capsys.readouterr().err
    assert convert(str(beir), "beir", out, "--overwrite") == 0
    assert not (out / "train.json").exists()


def test_the_working_folder_may_be_the_output(
    beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    assert main(["convert", "--data", str(beir), "--to", "csv", "--output", "."]) == 0
    assert Path("train.csv").is_file()  # the folder is the same, and a shell in it sees them
    again = ["convert", "--data", str(beir), "--to", "jsonl", "--output", ".", "--overwrite"]
    assert main(again) == 0
    assert sorted(p.name for p in here.iterdir() if p.stem == "train") == ["train.jsonl"]
    assert [p.name for p in tmp_path.iterdir()] == ["here"]
    (here / "in").mkdir()
    monkeypatch.chdir(here / "in")
    assert main([*again[:-2], "..", "--overwrite"]) == 0
    assert (here / "train.jsonl").is_file()
