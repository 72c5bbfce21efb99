"""A split is called as its file is, unless the name says no more than train, dev or test."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.data.formats import FORMATS, find_format
from unstale.data.formats.format import splits_of
from unstale.data.load import load_dataset


def names(*stems: str) -> dict[str, list[str]]:
    splits = splits_of([Path(f"{stem}.json") for stem in stems])
    return {split: [file.stem for file in files] for split, files in splits.items()}


@pytest.mark.parametrize(
    ("stem", "split"),
    [
        ("train", "train"),
        ("biencoder-nq-train", "train"),
        ("nq-Dev", "dev"),
        ("train-0", "train"),
        ("dev_01", "dev"),
        ("test-00001-of-00003", "test"),
        ("validation-00000-of-00001-a09b74b3ef9c3b56", "validation"),
        ("test_data", "test"),
        ("squad-dev-v1.1", "dev"),
        ("faq", "train"),
        ("train-hard", "train"),
        ("test2019", "test2019"),
        ("test-2019", "test-2019"),
        ("dev-small", "dev-small"),
        ("contest", "train"),
    ],
)
def test_a_file_alone(stem: str, split: str) -> None:
    assert names(stem) == {split: [stem]}


@pytest.mark.parametrize("stems", [
    ["train-0", "train-1"], ["train-00000-of-00002", "train-00001-of-00002"], ["train1", "train2"],
    ["x-train_00", "x-train_01", "x-train_02"],
])  # fmt: skip
def test_shards_are_one_split(stems: list[str], caplog: pytest.LogCaptureFixture) -> None:
    assert names(*stems) == {"train": stems}
    assert not caplog.text


@pytest.mark.parametrize("stems", [
    ["test2019", "test2020"], ["test-2019", "test-2020"], ["nq-train", "trivia-train"],
    ["dev", "dev-small"], ["train", "train-0"], ["train", "train-hard"], ["dev", "nq-dev"],
])  # fmt: skip
def test_splits_of_their_own_stay_apart(stems: list[str]) -> None:
    assert names(*stems) == {stem: [stem] for stem in stems}


def test_names_that_stay_apart_are_told(caplog: pytest.LogCaptureFixture) -> None:
    names("nq-train", "trivia-train")
    assert "'nq-train', 'trivia-train': read as splits of these names, not as train" in caplog.text


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "ir_datasets"])
def test_a_round_trip_keeps_the_names(name: str, tmp_path: Path) -> None:
    pairs = [Qrels(np.array([i]), np.array([i]), np.array([1])) for i in range(4)]
    splits = ["train", "test2019", "test2020", "dev-small"]
    dataset = RetrievalDataset(
        name="x",
        target_ids=Texts.of(list("abcd")),
        targets=Texts.of(["one", "two", "three", "four"]),
        query_ids=Texts.of(list("wxyz")),
        queries=Texts.of(["1?", "2?", "3?", "4?"]),
        qrels=dict(zip(splits, pairs, strict=True)),
    )
    some = replace(dataset, qrels={k: v for k, v in dataset.qrels.items() if k != "train"})
    for number, before in enumerate((dataset, some)):
        (folder := tmp_path / str(number)).mkdir()
        find_format(name).write(before, folder)
        after = load_dataset(str(folder))
        assert {s: len(q.pairs) for s, q in after.qrels.items()} == dict.fromkeys(before.qrels, 1)
