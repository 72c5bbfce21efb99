"""The store gives back what the model's own preprocess gives, for both kinds of features."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import preprocess
from unstale.errors import InputError

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", ["static_model", "bert_model"])
def test_features_equal_the_models_own(
    kind: str, request: pytest.FixtureRequest, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    model: SentenceTransformer = request.getfixturevalue(kind)
    store = TokenStore.build(
        dataset.targets, lambda t: preprocess(model, t, "document"), tmp_path / "tokens"
    )
    rows = np.array([7, 3, 7, 119])
    ours = store.features(rows, CPU)
    theirs = preprocess(model, dataset.targets.take(rows), "document")
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        if torch.is_tensor(value):
            assert torch.equal(ours[key], value), key
        else:
            assert ours[key] == value


def test_opens_what_is_built_and_refuses_another_corpus(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    def never(texts: list[str]) -> dict:
        raise AssertionError("tokenised again")

    def build(texts, how) -> TokenStore:
        return TokenStore.build(texts, how, tmp_path / "tokens", max_length=5)

    first = build(dataset.targets, lambda t: preprocess(static_model, t, "document"))
    again = build(dataset.targets, never)
    every = np.arange(len(first))
    np.testing.assert_array_equal(first.lengths(every), again.lengths(every))
    assert first.truncated == int((first.lengths(every) >= 5).sum()) > 0
    with pytest.raises(InputError, match="tokens of 120 targets, not 100"):
        build(dataset.query_ids.__class__.of(dataset.queries.take(range(100))), never)


def test_features_that_cannot_be_stored_are_refused(
    dataset: RetrievalDataset, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="pixel_values"):
        TokenStore.build(
            dataset.targets, lambda t: {"pixel_values": torch.zeros(len(t))}, tmp_path / "tokens"
        )
    assert not (tmp_path / "tokens").exists()


def test_features_of_a_few_rows_take_no_memory_that_grows_with_the_corpus() -> None:
    targets = 1_000_000
    template = {"constants": {}, "pad": 0, "segments": False, "kind": "padded"}
    store = TokenStore(
        np.arange(4 * targets, dtype=np.int32), np.arange(0, 4 * targets + 1, 4), template
    )
    tracemalloc.start()
    features = store.features(np.array([5, 999_999]), CPU)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert features["input_ids"].tolist() == [
        [20, 21, 22, 23],
        [3999996, 3999997, 3999998, 3999999],
    ]
    assert peak < targets / 8  # a number for each target would be eight bytes


@pytest.mark.parametrize("name", ["ids.bin", "starts.npy", "template.json"])
def test_a_damaged_store_is_made_again_and_said(
    name: str,
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def build() -> TokenStore:
        return TokenStore.build(
            dataset.targets, lambda t: preprocess(static_model, t, "document"), tmp_path / "tokens"
        )

    good = np.array(build().ids)
    path = tmp_path / "tokens" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert (build().ids == good).all()
    assert f"{name} is damaged" in caplog.text
    assert "made again" in caplog.text
    caplog.clear()
    build()
    assert not caplog.text
