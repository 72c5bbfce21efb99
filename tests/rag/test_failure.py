"""What goes wrong in a run of Algorithm 2 stops it, named; what is not its own is refused."""

import dataclasses
import json
from pathlib import Path

import pytest
from tests.rag.test_job import SMALL

from unstale.errors import InputError, RunError
from unstale.rag.job import train_rag
from unstale.rag.questions import QuestionSet
from unstale.rag.trainer import RagTrainer


def poison(what: str, trainer: RagTrainer) -> None:
    """Spoil one thing as the third step begins."""
    algorithm = trainer.algorithm
    towers = algorithm.model[0].sub_modules
    part = {
        "question embeddings": towers["query"],
        "fresh embeddings": towers["document"],
        "the reader loss": algorithm.reader,
        "the corrector loss": algorithm.miner,
        "the retriever's or the reader's gradient": algorithm.reader,
        "the corrector's gradient": algorithm.miner,
    }[what]
    weight = next(part.parameters())
    if "gradient" in what:
        weight.register_hook(lambda gradient: gradient + float("inf"))
    else:
        weight.data.fill_(float("nan"))


@pytest.mark.parametrize(
    "what",
    [
        "question embeddings",
        "fresh embeddings",
        "the reader loss",
        "the corrector loss",
        "the retriever's or the reader's gradient",
        "the corrector's gradient",
    ],
)
def test_nan_stops_the_run_and_says_where(
    start, questions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    step = RagTrainer.training_step

    def stepping(self: RagTrainer, *args, **kwargs):
        if self.state.global_step == 2:
            poison(what, self)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(RagTrainer, "training_step", stepping)
    with pytest.raises(RunError, match=f"NaN or infinity in {what} at step 3") as stopped:
        train_rag(questions, *start(), tmp_path, **SMALL | {"save_steps": 1})
    assert "checkpoint-2" in str(stopped.value)
    failure = json.loads((tmp_path / "failure.json").read_text())
    assert failure["step"] == 3
    assert len(failure["query_ids"]) == 8
    assert all(key.startswith("q") for key in failure["query_ids"])
    assert bool(failure["target_ids"]) == (what == "fresh embeddings")


def test_as_many_checkpoints_are_kept_as_asked(start, questions, tmp_path: Path) -> None:
    for keep, steps in ((1, {6}), (3, {2, 4, 6})):
        output = tmp_path / str(keep)
        options = SMALL | {"save_steps": 2, "keep_checkpoints": keep}
        train_rag(questions, *start(), output, **options)
        assert {p.name for p in (output / "checkpoints").iterdir()} == {
            f"checkpoint-{step}" for step in steps
        }
    with pytest.raises(InputError, match="--keep-checkpoints must be at least 1, got 0"):
        train_rag(questions, *start(), tmp_path, **SMALL | {"keep_checkpoints": 0})


def test_going_on_with_other_answers_is_refused(start, questions, tmp_path: Path) -> None:
    options = SMALL | {"save_steps": 2, "steps": 4}
    train_rag(questions, *start(), tmp_path, **options)
    answers = [["other"], *questions.answers[1:]]
    dataset = dataclasses.replace(questions.dataset, answers=answers)
    with pytest.raises(InputError, match="answers changed since"):
        train_rag(
            QuestionSet(dataset, questions.splits), *start(), tmp_path, **options, resume=True
        )
