"""The weights that a run keeps are those that rank its dev queries best."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.load import load_encoder
from unstale.miners import Stale
from unstale.training.best import KeptWeights
from unstale.training.guard import METRIC, Guard
from unstale.training.job import train
from unstale.training.record import RunRecord

SMALL = {
    "steps": 6,
    "batch_size": 8,
    "hard_negatives": 2,
    "corrector_hidden": (24,),
    "probe_queries": 8,
    "probe_targets": 40,
    "progress": False,
}


@pytest.fixture
def start(bert_folder: Path):
    def load() -> SentenceTransformer:
        return load_encoder(str(bert_folder), layers=1, device="cpu")

    return load


@pytest.mark.parametrize("strategy", ["staged", "corrected", "in-batch"])
def test_a_training_that_destroys_the_model_leaves_it_as_it_was(
    strategy: str, start, dataset: RetrievalDataset, tmp_path: Path, caplog
) -> None:
    ruinous = SMALL | {"strategy": strategy, "learning_rate": 10.0}
    result = train(dataset, start(), tmp_path / "run", **ruinous)
    assert result.retriever_step == 0
    assert result.metrics == pytest.approx(result.initial_metrics)
    assert "the weights of step 0 are kept: they rank the dev queries better" in caplog.text
    saved = SentenceTransformer(str(tmp_path / "run" / "model"), device="cpu")
    for ours, theirs in zip(saved.parameters(), start().parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert not (tmp_path / "run" / "best").exists()
    unguarded = train(dataset, start(), tmp_path / "free", **ruinous, guard=False)
    assert unguarded.metrics["ndcg@10"] < result.metrics["ndcg@10"]
    assert unguarded.dev is None


def test_looks_are_taken_wherever_the_miner_sees_the_corpus(
    start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    result = train(dataset, start(), tmp_path / "run", **SMALL, mine_from=0.5)
    assert result.dev is not None
    # Before training; after the third step, when the corpus is embedded, and those that follow;
    # the last by the corpus as it is then, and not as the miner sees it.
    assert [look["step"] for look in result.dev] == [0, 3, 4, 5, 6]


def test_a_part_of_the_corpus_is_not_taken_for_all_of_it(
    start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    """Dev queries ranked over a part of the targets would look better than they are."""
    part = SMALL | {"mine_from": 0.5, "mine_among": 60}
    result = train(dataset, start(), tmp_path / "run", **part)
    assert result.dev is not None
    assert [look["step"] for look in result.dev] == [0, 6]
    ruined = train(dataset, start(), tmp_path / "ruin", **part, learning_rate=10.0)
    assert ruined.retriever_step == 0
    assert ruined.metrics == pytest.approx(ruined.initial_metrics)


def test_the_weights_at_the_switch_are_looked_at_whatever_the_length(
    start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    """Of 23 steps a tenth is 2, and mining begins after 17."""
    longer = SMALL | {"steps": 23, "mine_from": 0.75}
    result = train(dataset, start(), tmp_path / "run", **longer)
    assert result.dev is not None
    assert [look["step"] for look in result.dev] == [0, 17, 18, 20, 22, 23]


def test_few_targets_are_all_ranked(start, dataset: RetrievalDataset, tmp_path: Path) -> None:
    small = dataset.with_targets(np.unique(dataset.split("dev").pairs[:8, 1]))
    guard = Guard(small, start(), tmp_path, seed=0)
    view = TargetBuffer([torch.randn(len(small.targets), 32)])
    assert guard.look(start(), Stale(view)) is not None


@pytest.mark.parametrize(
    ("last", "kept"),
    [(0.5, 6), (0.4, 6), (0.398, 6), (0.39, 4)],
    ids=["better", "equal", "nearly equal", "worse"],
)
def test_the_best_look_wins_and_the_last_of_equals(
    last: float, kept: int, start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    model = start()
    guard = Guard(dataset, model, tmp_path, seed=0)
    looks = [{"step": 0, METRIC: 0.2}, {"step": 3, METRIC: 0.4}, {"step": 4, METRIC: 0.4}]
    record = RunRecord(looks=[*looks, {"step": 5, METRIC: 0.3}])
    KeptWeights(tmp_path / "best", {"model": model}).save()
    before = [weight.clone() for weight in model.parameters()]
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1.0)
    assert guard.settle(record, 6, {METRIC: last}) == kept
    restored = all(map(torch.equal, model.parameters(), before))
    assert restored == (kept < 6)
