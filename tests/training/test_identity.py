"""What a run is made of is compared at every reuse: nothing is mixed with anything else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unstale import distributed
from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.distributed import check_processes
from unstale.errors import InputError
from unstale.results import RunResult
from unstale.training.arguments import check_arguments, recorded
from unstale.training.cells import Cell, run_cells
from unstale.training.identity import FORMAT, check_identity, identity, made_of
from unstale.training.job import train
from unstale.training.settings import TrainSettings

SMALL = {"steps": 2, "batch_size": 8, "hard_negatives": 2, "corrector_hidden": 8}
SMALL |= {"probe_targets": 40, "save_steps": 1, "strategy": "in-batch"}


def regraded(dataset: RetrievalDataset, split: str, grade: int) -> RetrievalDataset:
    """Give the last judgement of a split another grade."""
    old = dataset.qrels[split]
    grades = np.append(old.grade[:-1], grade)
    return replace(dataset, qrels={**dataset.qrels, split: Qrels(old.query, old.target, grades)})


def without_last(dataset: RetrievalDataset, split: str) -> RetrievalDataset:
    old = dataset.qrels[split]
    fewer = Qrels(old.query[:-1], old.target[:-1], old.grade[:-1])
    return replace(dataset, qrels={**dataset.qrels, split: fewer})


CHANGES = {
    "the grade of a test pair": lambda d: regraded(d, "test", 2),
    "a given negative": lambda d: regraded(d, "train", 0),
    "a dev pair": lambda d: without_last(d, "dev"),
    "a split": lambda d: replace(d, qrels={k: v for k, v in d.qrels.items() if k != "dev"}),
    "a query": lambda d: replace(d, queries=Texts.of(["other", *list(d.queries)[1:]])),
    "a target": lambda d: replace(d, targets=Texts.of([*list(d.targets)[:-1], "other"])),
    "an answer": lambda d: replace(d, answers=[["other"], *d.answers[1:]]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_the_data_changes_its_identity(
    change: str, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    other = CHANGES[change](dataset)
    ours, theirs = (made_of(data, "weights", TrainSettings()) for data in (dataset, other))
    with pytest.raises(InputError, match="changed since"):
        check_identity(tmp_path, ours, theirs)
    check_identity(tmp_path, ours, made_of(replace(dataset, name="x"), "weights", TrainSettings()))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"steps": 7}, "--steps"),
        ({"learning_rate": 0.5}, "--learning-rate"),
        ({"seed": 1}, "--seed"),
        ({"trainer": {"weight_decay": 0.1}}, "--trainer"),
    ],
)
def test_settings_that_results_depend_on_are_part_of_it(
    changes: dict, named: str, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    ours = made_of(dataset, "weights", TrainSettings())
    with pytest.raises(InputError, match=f"{named} changed since"):
        check_identity(tmp_path, ours, made_of(dataset, "weights", TrainSettings(**changes)))
    free = TrainSettings(save_steps=3, eval_steps=2, buffer="b", trainer={"logging_steps": 9})
    check_identity(tmp_path, ours, made_of(dataset, "weights", free))


def test_another_version_is_refused_if_its_format_is_another(
    dataset: RetrievalDataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = dataset.split("train").pairs
    now = identity(made_of(dataset, "weights", TrainSettings()), pairs, None, None)
    check_identity(tmp_path, now, now | {"unstale": "9.9"})
    assert "unstale was" in caplog.text
    for was in ({}, {**now, "format": "1"}):
        with pytest.raises(
            InputError, match=rf"another version of unstale .*this one has {FORMAT}"
        ):
            check_identity(tmp_path, was, now)
    with pytest.raises(InputError, match="model changed since"):
        check_identity(tmp_path, now, {**now, "model": "other"})


@pytest.mark.parametrize("change", ["the grade of a test pair", "a given negative"])
def test_a_run_does_not_resume_on_other_judgements(
    change: str, dataset: RetrievalDataset, static_model, tmp_path: Path
) -> None:
    train(dataset, static_model, tmp_path, progress=False, **SMALL)
    data = CHANGES[change](dataset)
    with pytest.raises(InputError, match="qrels changed since"):
        train(data, static_model, tmp_path, resume=True, progress=False, **SMALL)


def test_a_finished_cell_of_other_judgements_is_not_mixed_in(
    dataset: RetrievalDataset, tmp_path: Path
) -> None:
    expected = made_of(dataset, "weights", TrainSettings())

    def finish(folder: Path, _: bool) -> RunResult:
        np.savez(folder / "test.npz", **{"recall@1": np.ones(2)})
        return RunResult(strategy="stale", metrics={"recall@1": 1.0}, identity=expected)

    (tmp_path / "cell").mkdir()
    done = list(run_cells([Cell(tmp_path / "cell", "a cell", finish, expected)]))
    assert done[0].entry.identity == expected
    other = made_of(regraded(dataset, "test", 3), "weights", TrainSettings())
    with pytest.raises(InputError, match="qrels changed since"):
        list(run_cells([Cell(tmp_path / "cell", "a cell", finish, other)]))


def test_processes_with_different_corpora_do_not_train_together(
    dataset: RetrievalDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (
        made_of(data, "weights", TrainSettings())
        for data in (dataset, CHANGES["a target"](dataset))
    )
    check_processes(ours)
    monkeypatch.setattr(distributed, "exchange", lambda own: [own, theirs])  # as of two processes
    with pytest.raises(InputError, match="targets differs between this process and 1"):
        check_processes(ours)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("save_only_model", True, "would not end as an uninterrupted one"),
        ("ignore_data_skip", True, "would not end as an uninterrupted one"),
        ("per_device_train_batch_size", 4, "use --batch-size"),
        ("seed", 3, "use --seed"),
        ("push_to_hub", True, "sends nothing away"),
        ("hub_token", "x", "sends nothing away"),
        ("learning_rate_mapping", {"a": -1}, "use --learning-rate and --corrector-lr"),
        ("warmup_ratio", 0.1, "use --trainer.warmup_steps"),
        ("neftune_noise_alpha", 5, "a run takes only adam_beta1"),
        ("no_such_thing", 1, "no_such_thing: a run takes only adam_beta1"),
        ("optim", "nonsense", "--trainer.optim must be one of adamw_torch, .* got 'nonsense'"),
        ("lr_scheduler_type", "nonsense", "must be one of linear, cosine, .* got 'nonsense'"),
        ("log_level", "nonsense", "--trainer.log_level must be one of detail, debug"),
        ("optim_args", "nonsense", "the Trainer refuses this"),
        ("optim", "lomo", "the Trainer refuses this .*install"),
        ("report_to", "nonsense", "must be none, all, or an installed package"),
        ("report_to", "numpy", "the Trainer refuses this .*not supported"),
        ("weight_decay", "much", "--trainer.weight_decay must be a number, got 'much'"),
        ("weight_decay", True, "--trainer.weight_decay must be a number, got True"),
        ("bf16", "maybe", "--trainer.bf16 must be true or false, got 'maybe'"),
        ("lr_scheduler_kwargs", 3, "lr_scheduler_kwargs must be a dict or a text, got 3"),
        ("optim_target_modules", 3, "optim_target_modules must be a text or a list, got 3"),
        ("weight_decay", -1, "weight_decay must be a finite number from 0 on, got -1"),
        ("max_grad_norm", float("nan"), "max_grad_norm must be a finite number from 0 on"),
        ("adam_beta1", 7, "adam_beta1 must be a finite number from 0 to below 1, got 7"),
        ("dataloader_num_workers", 2, "batches are made in the training process"),
        ("gradient_accumulation_steps", 0, "must be a finite number from 1 on, got 0"),
        ("gradient_accumulation_steps", 1.5, "must be a whole number, got 1.5"),
        ("torch_compile_backend", "nonsense", "the Trainer refuses this"),
    ],
)
def test_the_trainer_is_given_only_what_a_run_can_record(name: str, value, why: str) -> None:
    with pytest.raises(InputError, match=why):
        check_arguments({name: value})


def test_what_the_trainer_is_given_is_recorded() -> None:
    given = {"weight_decay": 0.1, "lr_scheduler_type": "constant", "logging_steps": 2}
    check_arguments(given | {"bf16": True, "warmup_steps": 0.1, "report_to": "none"})
    assert recorded(given) == {"weight_decay": 0.1, "lr_scheduler_type": "constant"}
