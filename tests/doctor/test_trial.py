"""The trial on real data with a real model, as `unstale doctor` runs it."""

import json
from pathlib import Path

import pytest

from unstale.cli.main import main
from unstale.data.dataset import RetrievalDataset
from unstale.doctor.sample import sample


def test_a_sample_keeps_the_pairs_together(dataset: RetrievalDataset) -> None:
    small = sample(dataset, 50)
    assert len(small.targets) == 50
    # Half of them are positives, each of one query; a fifth of those is held out.
    assert [len(small.split(name).pairs) for name in ("train", "dev")] == [20, 5]
    for query, target in (p for s in ("train", "dev") for p in small.split(s).pairs.tolist()):
        assert small.target_ids[target][1:] == small.query_ids[query][1:]  # q7 is answered by t7
    whole = sample(dataset, 500)
    assert list(whole.targets) == list(dataset.targets)
    assert [len(whole.split(name).pairs) for name in ("train", "dev")] == [64, 16]


def test_doctor(beir: Path, bert_folder: Path, tmp_path: Path, capsys) -> None:
    words = ["doctor", "--data", str(beir), "--model", str(bert_folder), "--layers", "1"]
    words += ["--steps", "6", "--batch-size", "16", "--learning-rate", "0.01"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "results.json").read_text())["doctor"]
    assert found["advice"] in shown
    assert "batches of 16 on 120 of 120 targets, 16 queries held out" in shown
    tried = [found[name] for name in ("in_batch", "default")]
    assert [(one["strategy"], one["steps"]) for one in tried] == [("in-batch", 6), ("staged", 6)]
    assert all(one["seconds"] > 0 for one in tried)
    assert found["gain"] == pytest.approx(tried[1]["ndcg"] - tried[0]["ndcg"])
    assert found["mined"] == 3  # after half of 6 steps


def test_it_stops_when_the_time_is_up(beir: Path, bert_folder: Path, capsys) -> None:
    words = ["doctor", "--data", str(beir), "--model", str(bert_folder), "--layers", "1"]
    assert main([*words, "--batch-size", "8", "--seconds", "0.01"]) == 0
    shown = capsys.readouterr().out
    assert "batches of 8 on 48 of 120 targets" in shown
    assert "The trial was too short for advice (1 steps" in shown


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (["--seconds", "0"], "--seconds must be above 0, got 0.0"),
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--batch-size", "70"], "a batch of 70 needs as many training pairs; there are 64"),
    ],
)
def test_what_cannot_be_tried(beir, bert_folder, tmp_path, capsys, flags, rule) -> None:
    words = ["doctor", "--data", str(beir), "--model", str(bert_folder), *flags]
    assert main([*words, "--output", str(tmp_path / "out")]) == 2
    assert rule in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_both_trainings_take_the_same_seconds(
    beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    words = ["doctor", "--data", str(beir), "--model", str(bert_folder), "--layers", "1"]
    assert main([*words, "--seconds", "12", "--output", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["doctor"]
    first, second = found["in_batch"], found["default"]
    assert second["steps"] < first["steps"]
    # The second is planned by the first; the rest is the noise of a machine with other work.
    assert second["seconds"] < 2 * first["seconds"]
