"""What a run keeps: the best weights by dev, and never a retriever below its start."""

import logging
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.rag.test_job import SMALL, weights

from unstale.errors import InputError
from unstale.rag.dev import choose_dev, score
from unstale.rag.evaluator import RagEvaluator
from unstale.rag.job import train_rag
from unstale.rag.questions import QuestionSet
from unstale.rag.settings import RagSettings
from unstale.training.best import kept_look


@pytest.fixture
def rambling(start):
    """Load models whose reader is sure of something else for every pair, and learns nothing."""

    def load():
        retriever, reader = start()
        with torch.no_grad():
            for weight in reader.parameters():
                weight.mul_(4)
        return retriever, reader

    return load


def test_a_reader_that_answers_at_random_leaves_the_retriever_as_it_was(
    rambling, questions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = SMALL | {"reader_lr": 1e-9, "steps": 10}
    harmed = train_rag(questions, *rambling(), tmp_path / "harmed", **options)
    assert harmed.metrics["answer_mrr"] < harmed.initial_metrics["answer_mrr"] - 0.05
    retriever, reader = rambling()
    before = {name: value.clone() for name, value in retriever.state_dict().items()}
    with caplog.at_level(logging.WARNING, "unstale"):
        options |= {"dev_questions": 256}
        kept = train_rag(questions, retriever, reader, tmp_path / "kept", **options)
    assert (kept.retriever_step, kept.reader_step) == (0, kept_look(kept.dev, score)["step"])
    assert "THE RETRIEVER GOT WORSE" in caplog.text
    for name, value in retriever.state_dict().items():
        assert torch.equal(value, before[name]), name
    found = {k: v for k, v in kept.metrics.items() if k in kept.initial_metrics}
    assert found == pytest.approx(kept.initial_metrics)
    assert not {"start", "best"} & {path.name for path in (tmp_path / "kept").iterdir()}


def test_the_weights_of_the_best_look_are_the_run_s(start, questions, tmp_path: Path) -> None:
    options = SMALL | {"dev_questions": 256, "strategy": "frozen", "save_steps": 1}
    options |= {"keep_checkpoints": 9, "steps": 5}
    done = train_rag(questions, *start(), tmp_path, **options)
    assert [look["step"] for look in done.dev] == [1, 2, 3, 4, 5]
    assert done.retriever_step == done.reader_step == kept_look(done.dev, score)["step"]
    checkpoint = tmp_path / "checkpoints" / f"checkpoint-{done.reader_step}"
    kept, saved = weights(tmp_path), load_file(checkpoint / "reader.safetensors")
    trained = {name.rpartition("/")[2]: v for name, v in kept.items() if name.startswith("reader")}
    both = {name: f"model.{name}" for name in trained if f"model.{name}" in saved}  # some are tied
    assert len(both) > 10
    for name, other in both.items():
        assert torch.equal(trained[name], saved[other]), name


def test_the_best_look_is_that_of_the_most_exact_answers() -> None:
    looks = [
        {"step": 1, "exact_match": 0.5, "f1": 0.9},
        {"step": 2, "exact_match": 0.6, "f1": 0.6},
        {"step": 3, "exact_match": 0.6, "f1": 0.7},
        {"step": 4, "exact_match": 0.6, "f1": 0.7},
        {"step": 5, "exact_match": 0.4, "f1": 0.8},
    ]
    assert kept_look(looks, score)["step"] == 4


def test_a_resumed_run_keeps_the_same_weights(
    start, questions, tmp_path: Path, monkeypatch
) -> None:
    """The best look is one before the checkpoint, so its weights must be in there."""
    seen = iter([0.1, 0.4, 0.2, 0.2, 0.3, 0.3])  # five looks, and once more the last
    look = lambda *_: ({"exact_match": next(seen), "f1": 0.0}, 0)  # noqa: E731
    monkeypatch.setattr(RagEvaluator, "look", look)
    options = SMALL | {"dev_questions": 256, "save_steps": 4, "steps": 10, "learning_rate": 1e-4}
    whole = train_rag(questions, *start(), tmp_path / "whole", **options)
    again = tmp_path / "again"
    shutil.copytree(tmp_path / "whole" / "buffer", again / "buffer")
    shutil.copytree(tmp_path / "whole/checkpoints/checkpoint-8", again / "checkpoints/checkpoint-8")
    resumed = train_rag(questions, *start(), again, **options, resume=True)
    assert resumed.dev == whole.dev
    assert resumed.reader_step == whole.reader_step == 4
    assert resumed.metrics == whole.metrics
    first, second = weights(tmp_path / "whole"), weights(again)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_without_dev_a_tenth_of_training_is_held_out_and_said(
    questions, caplog: pytest.LogCaptureFixture
) -> None:
    splits = {name: rows for name, rows in questions.splits.items() if name != "dev"}
    without = QuestionSet(questions.dataset, splits)
    with caplog.at_level(logging.WARNING, "unstale"):
        train, held = choose_dev(without, RagSettings(), 8)
    assert (len(train), len(held)) == (72, 8)
    assert set(train) | set(held) == set(questions.rows("train"))
    assert "the split dev does not exist; 8 of the 80 training questions" in caplog.text
    train, held = choose_dev(questions, RagSettings(eval_split="dev"), 8)
    assert len(held) == 8  # what a run is measured on does not choose its weights
    train, dev = choose_dev(questions, RagSettings(), 8)
    assert (len(train), set(dev)) == (80, set(questions.rows("dev")))
    with pytest.raises(InputError, match="too few to hold some out"):
        choose_dev(without, RagSettings(), 80)


@pytest.mark.parametrize(("patience", "steps", "kept"), [(0, 5, 5), (2, 4, 2), (1, 3, 2)])
def test_a_run_stops_when_looks_are_no_better(
    start, questions, tmp_path: Path, monkeypatch, patience: int, steps: int, kept: int
) -> None:
    seen = iter([0.1, 0.3, 0.2, 0.2, 0.4])
    look = lambda *_: ({"exact_match": next(seen), "f1": 0.0}, 0)  # noqa: E731
    monkeypatch.setattr(RagEvaluator, "look", look)
    options = SMALL | {"dev_questions": 256, "steps": 5, "strategy": "frozen"}
    done = train_rag(questions, *start(), tmp_path, **options, patience=patience)
    assert (done.steps, done.reader_step, len(done.dev)) == (steps, kept, steps)


def test_a_reader_that_is_only_read_from_stays_as_it_is(start, questions, tmp_path: Path) -> None:
    retriever, reader = start()
    before = reader.weights, {n: v.clone() for n, v in retriever.state_dict().items()}
    for fusion in ("fid", "marginal"):
        options = SMALL | {"reader_lr": 0.0, "fusion": fusion}
        train_rag(questions, retriever, reader, tmp_path / fusion, **options)
        assert reader.weights == before[0]
        assert any(not torch.equal(v, before[1][n]) for n, v in retriever.state_dict().items())
