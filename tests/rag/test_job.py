"""Whole runs of Algorithm 2 on the small world: every strategy, resume, bad input."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.processors import processor

from unstale.errors import InputError
from unstale.rag.check import check_rag, rag_strategies
from unstale.rag.evaluator import Starts
from unstale.rag.job import train_rag, train_rag_checked
from unstale.rag.questions import QuestionSet
from unstale.rag.settings import RagSettings

SMALL = {
    "steps": 6,
    "batch_size": 8,
    "k": 3,
    "corrector_hidden": (24,),
    "learning_rate": 1e-2,
    "reader_lr": 1e-2,
    "refreshes": 2,
    "dev_questions": 0,  # the last weights, so that a test sees what training did to them
    "probe_queries": 8,
    "probe_targets": 40,
    "progress": False,
}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {
        f"{file.relative_to(folder)}/{k}": v
        for part in ("model", "reader")
        for file in sorted((folder / part).rglob("*.safetensors"))
        for k, v in load_file(file).items()
    }


@pytest.mark.parametrize("strategy", rag_strategies())
def test_every_strategy_trains_what_it_should(start, questions, tmp_path, strategy: str) -> None:
    retriever, reader = start()
    before = {k: v.clone() for k, v in retriever.state_dict().items()}
    read = {k: v.clone() for k, v in reader.state_dict().items()}
    entry = train_rag(questions, retriever, reader, tmp_path, strategy=strategy, **SMALL)
    moved = any(not torch.equal(v, before[k]) for k, v in retriever.state_dict().items())
    assert moved == (strategy not in ("none", "frozen"))
    assert any(not torch.equal(v, read[k]) for k, v in reader.state_dict().items())
    targets = len(questions.dataset.targets)
    refreshes = {"exhaustive": 2, "two-round": 1}.get(strategy, 0)
    assert entry.targets_reembedded == refreshes * targets
    assert entry.targets_embedded == (0 if strategy == "none" else targets)
    assert 0 <= entry.metrics["exact_match"] <= entry.metrics["f1"] <= 1
    assert ("answer_recall" in entry.metrics) == (strategy != "none")
    answered = json.loads((tmp_path / "answers.json").read_text())
    assert len(answered) == len(questions.rows("test"))
    with np.load(tmp_path / "test.npz") as values:
        assert values["f1"].mean() == pytest.approx(entry.metrics["f1"])


@pytest.mark.parametrize("strategy", ["corrected", "exhaustive"])
def test_a_resumed_run_ends_bit_identical(start, questions, tmp_path, strategy: str) -> None:
    options = SMALL | {"strategy": strategy, "save_steps": 4, "steps": 14}  # over an epoch's end
    whole = train_rag(questions, *start(), tmp_path / "whole", **options)
    again = tmp_path / "again"
    shutil.copytree(tmp_path / "whole" / "buffer", again / "buffer")
    checkpoint = "checkpoints/checkpoint-12"
    shutil.copytree(tmp_path / "whole" / checkpoint, again / checkpoint)
    resumed = train_rag(questions, *start(), again, **options, resume=True)
    first, second = weights(tmp_path / "whole"), weights(again)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
    counted = ("targets_trained", "targets_reembedded", "reader_inputs", "reader_truncated")
    for key in ("metrics", "freshness", *counted):
        assert getattr(whole, key) == getattr(resumed, key), key


def test_two_runs_of_one_seed_are_equal_and_of_two_are_not(start, questions, tmp_path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train_rag(questions, *start(), tmp_path / name, **SMALL, seed=seed)
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not all(torch.equal(a[k], c[k]) for k in a)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 500}, "k must be from 1 to the corpus's 120 targets, got 500"),
        ({"k": 0}, "--k must be at least 1, got 0"),
        ({"strategy": "magic"}, "unknown strategy 'magic'; choose from none, frozen"),
        ({"batch_size": 100}, "a batch of 100 needs at least 100 training questions; .* has 80"),
        ({"eval_split": "later"}, "no split 'later'"),
        ({"reader_lr": 0.0, "strategy": "frozen"}, "--reader-lr 0 with --strategy frozen trains"),
        ({"patience": 2}, "--patience needs --dev-questions"),
        ({"reader_lr": -1.0}, "--reader-lr must be at least 0, got -1.0"),
    ],
)
def test_bad_settings_are_refused_before_any_work(
    start, questions, tmp_path, change: dict, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train_rag(questions, *start(), tmp_path / "run", **SMALL | change)
    assert not (tmp_path / "run").exists()


def test_bfloat16_on_a_broken_processor_is_refused(start, questions, tmp_path) -> None:
    options = SMALL | {"trainer": {"bf16": True}}
    with processor(tmp_path), pytest.raises(InputError, match="bfloat16 does not run on this"):
        train_rag(questions, *start(), tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_questions_without_answers_and_answers_too_long(start, questions, tmp_path) -> None:
    retriever, reader = start()
    row = int(questions.rows("train")[5])
    for answer, message in (("  ", f"question 'q{row}'"), ("old " * 9, "the longest 10: question")):
        answers = [list(a) for a in questions.answers]
        answers[row] = [answer]
        changed = QuestionSet(
            dataclasses.replace(questions.dataset, answers=answers), questions.splits
        )
        with pytest.raises(InputError, match=message):
            train_rag(changed, retriever, reader, tmp_path / "run", **SMALL)
    bare = QuestionSet(dataclasses.replace(questions.dataset, answers=None), questions.splits)
    with pytest.raises(InputError, match="has no answers"):
        train_rag(bare, retriever, reader, tmp_path / "run", **SMALL)


def test_runs_that_start_alike_are_measured_once(start, questions, tmp_path: Path) -> None:
    starts: Starts = {}
    small = {name: value for name, value in SMALL.items() if name != "progress"} | {"steps": 1}
    first, second = {}, {}
    for name, found in (("frozen", first), ("stale", second)):
        retriever, reader = start()
        wanted = RagSettings(**small | {"strategy": name})
        checked = check_rag(wanted, questions, retriever, reader)
        done = train_rag_checked(
            questions, retriever, reader, tmp_path / name, checked, progress=False, starts=starts
        )
        found |= done.initial_metrics
        for key, (_, mrr, before) in starts.items():
            starts[key] = ({"exact_match": 0.123}, mrr, before)  # to see where it is taken from
    assert len(starts) == 1
    assert len(first) > 5
    assert second == {"exact_match": 0.123}
    retriever, reader = start()
    with torch.no_grad():
        next(reader.parameters()).add_(1)
    checked = check_rag(RagSettings(**small), questions, retriever, reader)
    other = train_rag_checked(
        questions, retriever, reader, tmp_path / "other", checked, progress=False, starts=starts
    )
    assert len(starts) == 2
    assert other.initial_metrics.keys() == first.keys()
