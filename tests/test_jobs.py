"""A run made in Python is one of the command line."""

from dataclasses import replace
from pathlib import Path

import pytest

from unstale import Index, evaluate, load_dataset, load_encoder, train
from unstale.cli.main import main
from unstale.cli.options_inspect import ServeFlags
from unstale.cli.serve import open_page
from unstale.errors import InputError
from unstale.files import cache_folder
from unstale.written import foreign


def test_a_run_opens_in_every_command(beir: Path, bert_folder: Path, tmp_path: Path, capfd) -> None:
    dataset = load_dataset(str(beir), progress=False)
    model = load_encoder(str(bert_folder), layers=1)
    before = evaluate(dataset, model, progress=False)
    capfd.readouterr()
    result = train(dataset, model, tmp_path / "run", steps=2, batch_size=8, progress=False)
    assert "".join(capfd.readouterr()) == ""  # it is quiet
    assert result.initial_metrics == pytest.approx(before)
    assert evaluate(dataset, model, progress=False) == pytest.approx(result.metrics)
    run = str(tmp_path / "run")
    assert main(["search", dataset.queries[0], "--run", run, "--k", "2"]) == 0
    assert main(["report", run]) == 0
    assert main(["verify", run]) == 0
    page = open_page(ServeFlags(run))
    assert len(page.dataset.targets) == len(dataset.targets)
    hits = Index.of_run(run).search(dataset.queries[0], k=3)
    index = Index(dataset, model)
    again = index.search(dataset.queries[0], k=3)
    kept = cache_folder() / "indexes"
    assert [p.name for p in kept.glob("*/shard-*")] == ["shard-00000.safetensors"]  # not in memory
    del index
    assert not list(kept.iterdir())
    assert [hit.id for hit in hits] == [hit.id for hit in again]
    assert hits[0].score == pytest.approx(again[0].score)
    with pytest.raises(InputError, match="is not empty; use --overwrite or --resume"):
        train(dataset, model, run, steps=2)
    with pytest.raises(InputError, match="the query is empty"):
        Index(dataset, model).search(" ")


def test_data_that_no_file_has_is_kept_with_the_run(
    beir: Path, bert_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = load_dataset(str(beir), progress=False)
    made = replace(whole, source="", qrels={"train": whole.qrels["train"]})
    model = load_encoder(str(bert_folder), layers=1)
    result = train(made, model, tmp_path / "run", steps=1, batch_size=8, progress=False)
    assert result.split == "test"  # held out
    assert len(Index.of_run(tmp_path / "run").dataset.targets) == len(whole.targets)
    assert foreign(tmp_path / "run") == []
    again = train(made, model, tmp_path / "run", resume=True, steps=1, batch_size=8)
    assert again.metrics == result.metrics  # it is finished
    small = {"steps": 1, "batch_size": 8, "progress": False, "rank": 3}
    train(made, model, tmp_path / "run", overwrite=True, **small)
    assert "--rank has no effect with staged" in caplog.text  # as the command says
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_reading_and_training_can_be_silent(
    static_folder: Path, tmp_path: Path, capfd, caplog
) -> None:
    table = tmp_path / "faq.csv"
    rows = [f"what is caf\xe9 {i}?;thing number {i}" for i in range(40)]
    table.write_bytes("\n".join(["Question;Answer", *rows, "", ";"]).encode("cp1252"))
    dataset, model = load_dataset(str(table), progress=False), load_encoder(str(static_folder))
    capfd.readouterr()
    train(dataset, model, tmp_path / "run", steps=2, batch_size=8, progress=False)
    assert "".join(capfd.readouterr()) == caplog.text == ""
    load_dataset(str(table))
    assert "not UTF-8, so the file is read as cp1252" in caplog.text
