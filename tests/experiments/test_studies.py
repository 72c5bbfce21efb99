"""The studies, small: they run, write what they promise, and show what they should."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.studies import (
    generalization,
    migration,
    small_to_large,
    synthetic_parameters,
    synthetic_samples,
    toy_circle,
)
from experiments.studies.subset import random_subset
from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError


def run(module, output: Path, **given) -> dict:
    return module.STUDY.run(output, module.STUDY.read(given))


def test_a_small_subset_is_the_beginning_of_a_larger_one(dataset: RetrievalDataset) -> None:
    small, large = random_subset(dataset, 30, seed=5), random_subset(dataset, 60, seed=5)
    assert list(small.targets) == list(large.targets)[:30]
    for part in (small, large):
        for split, qrels in part.qrels.items():
            asked = dataset.query_ids.take(qrels.query)
            answered = part.target_ids.take(qrels.target)
            assert [a[1:] for a in asked] == [t[1:] for t in answered]  # q7 is answered by t7
            assert len(qrels.query) <= len(dataset.split(split).query)
    with pytest.raises(InputError, match="cannot take 121 of the 120"):
        random_subset(dataset, 121)


def test_parameters_on_a_small_scale(tmp_path: Path) -> None:
    found = run(synthetic_parameters, tmp_path, fraction=0.02, epochs=40, gains=1)
    # "Up to 2 hidden layers of size D, 2D, 4D or 8D" move the targets, and correct them.
    shapes = [[], [8], [16], [32], [64], [8, 8], [16, 16], [32, 32], [64, 64]]
    for kind in ("drift", "hidden"):
        assert sorted(p[kind] for p in found["points"]) == sorted(9 * shapes)
    assert json.loads((tmp_path / "results.json").read_text()) == found
    assert (tmp_path / "figure.png").stat().st_size < 200_000
    largest = [p for p in found["points"] if p["hidden"] == [64, 64]]
    assert np.mean([p["kl_corrected"] / p["kl_stale"] for p in largest]) < 1


def test_samples_on_a_small_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_samples, "SHAPES", ((), (32,)))
    monkeypatch.setattr(synthetic_samples, "FRACTIONS", (0.005, 0.1, 1.0))
    found = run(synthetic_samples, tmp_path, repeats=1, epochs=30)
    assert len(found["curves"]) == 2 * 3
    for curve in found["curves"]:
        assert curve["parameters"] == [72, 552]
        if curve["fraction"] == 0.1:
            assert curve["kl_corrected"][1] < curve["kl_stale"]


def test_the_circle_is_corrected(tmp_path: Path) -> None:
    found = run(toy_circle, tmp_path, epochs=150)
    assert found["kl_corrected"] < found["kl_stale"] / 20
    for mass in found["distributions"].values():
        assert sum(mass) == pytest.approx(1, abs=1e-5)


def test_the_theorem_holds_with_its_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generalization, "SAMPLES", (40,))
    monkeypatch.setattr(generalization, "WIDTHS", (8,))
    monkeypatch.setattr(generalization, "GAINS", (0.5, 1.5))
    found = run(generalization, tmp_path, queries=1, epochs=40, signs=2)
    for row in found["rows"]:
        assert row["risk"] <= row["t1"] + row["t2_discrete"] + row["t3"]
        # The two population risks differ by at most the bound times the total variation.
        assert row["risk"] - row["stale_risk"] <= row["t2_discrete"] + 1e-6
    mild, strong = (r for r in found["rows"] if r["pane"] == "gain")
    assert mild["t2_discrete"] < strong["t2_discrete"]


def test_each_term_of_the_theorem_dominates_where_the_paper_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generalization, "SAMPLES", (20,))
    monkeypatch.setattr(generalization, "WIDTHS", (0,))
    monkeypatch.setattr(generalization, "GAINS", (1.5,))
    found = run(generalization, tmp_path, queries=1, epochs=40, signs=1)
    dominant = {row["pane"]: row["dominant"] for row in found["rows"]}
    assert dominant["samples"] == "t3"  # not enough samples
    assert dominant["gain"] == "t2_discrete"  # very different encoders
    assert dominant["soft"] == "t1"  # too simple a network


def test_the_wasserstein_distance_by_hand() -> None:
    # All mass moves from 0 to the point at distance 5 (3-4-5): the distance is 5.
    places = torch.tensor([[0.0, 0.0], [3.0, 4.0]] * 4)[:8]
    true, stale = torch.zeros(8), torch.zeros(8)
    true[1], stale[0] = 1.0, 1.0
    assert generalization._wasserstein(places, true, stale) == pytest.approx(5)


def test_precision_by_hand_leaves_the_query_itself_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_to_large, "CUTOFFS", (2,))
    true = torch.tensor([[9.0, 3.0, 2.0, 1.0]])
    # Without row 0: true top 2 is {1, 2}, found top 2 is {1, 3}: one of two.
    scores = torch.tensor([[9.0, 3.0, 1.0, 2.0]])
    assert small_to_large.precision(scores, true, torch.tensor([0])) == {"p@2": 50.0}


def test_small_to_large_and_migration_end_to_end(
    beir: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"small": "tiny", "large": str(bert_folder)}
    found = run(
        small_to_large,
        tmp_path / "a",
        data=str(beir),
        **models,
        samples=8,
        max_length=32,
        hidden=16,
        epochs=3,
    )
    assert found["unique_targets_embedded"] <= 120
    assert set(found["precision"]) >= {"small model alone", "least squares"}
    again = run(  # from the vectors that are there
        small_to_large,
        tmp_path / "a",
        data=str(beir),
        **models,
        samples=8,
        max_length=32,
        hidden=16,
        epochs=3,
    )
    assert again["precision"] == found["precision"]
    moved = run(
        migration, tmp_path / "b", data=str(beir), old="tiny", new=str(bert_folder), asked=10,
        fractions=(0.7,), resamples=2, method="linear", max_length=32, hidden=16,
    )  # fmt: skip
    (row,) = moved["table"]
    assert row["embedded"] == 84
    assert 0 <= row["overlap@10"]["covered"] <= 2
    assert row["overlap@10"]["truth"] > moved["old_index"]["overlap@10"]
