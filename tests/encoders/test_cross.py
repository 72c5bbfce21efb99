"""A cross-encoder scores a pair once."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import CrossEncoder

from unstale.data.dataset import RetrievalDataset
from unstale.encoders.cross import CrossScores
from unstale.errors import InputError


def test_scores_are_the_models_and_a_pair_is_scored_once(
    dataset: RetrievalDataset, write_cross_encoder, tmp_path: Path
) -> None:
    name = str(write_cross_encoder(tmp_path / "cross"))
    queries, targets = torch.tensor([0, 0, 5, 0]), torch.tensor([7, 8, 7, 7])
    first = CrossScores(name, dataset, device="cpu")
    found = first(queries, targets)
    texts = dataset.queries.take(queries.tolist()), dataset.targets.take(targets.tolist())
    pairs = list(zip(*texts, strict=True))
    expected = CrossEncoder(name, device="cpu").predict(pairs, convert_to_tensor=True)
    torch.testing.assert_close(found, expected)
    assert first.scored == 3  # the last pair is the first
    assert torch.equal(first(queries, targets), found)
    assert first.scored == 3


def test_what_cannot_rank_is_refused(
    dataset: RetrievalDataset, write_cross_encoder, tmp_path: Path
) -> None:
    name = str(write_cross_encoder(tmp_path / "cross", outputs=3))
    with pytest.raises(InputError, match="has 3 outputs"):
        CrossScores(name, dataset, device="cpu")
    with pytest.raises(InputError, match="cannot load the cross-encoder '/no/such'"):
        CrossScores("/no/such", dataset, device="cpu")


def test_a_long_run_keeps_a_bounded_number_of_scores(
    dataset: RetrievalDataset,
    write_cross_encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unstale.encoders.cross._MOST", 8)
    score = CrossScores(str(write_cross_encoder(tmp_path / "cross")), dataset, device="cpu")
    targets = torch.arange(6)
    first = score(torch.zeros(6, dtype=torch.long), targets)
    for query in range(1, 5):
        score(torch.full((6,), query), targets)
        assert len(score._known) <= 8 + 6
    torch.testing.assert_close(score(torch.zeros(6, dtype=torch.long), targets), first)
