"""An entry of results.json: what goes in comes out, and what was edited by hand is checked."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from unstale.errors import InputError
from unstale.results import (
    AnsweredQuestion,
    ExampleQuery,
    ListedTarget,
    RunResult,
    read_results,
    write_results,
)

METRICS = {"recall@1": 0.25, "recall@10": 0.5}
# As a job of Algorithm 1, one of Algorithm 2 and `unstale evaluate` write it.
COUNTS = {
    "targets_trained": 80,
    "targets_reembedded": 0,
    "targets_sampled": 0,
    "targets_probed": 12,
}
BOTH = COUNTS | {
    "strategy": "corrected",
    "seed": 3,
    "steps": 20,
    "split": "test",
    "initial_metrics": METRICS,
    "metrics": METRICS,
    "processes": 1,
    "search": None,
    "targets_embedded": 9,
    "candidates_considered": 40,
    "candidates_dropped": {"max_score": 4},
    "negatives_missing": 0,
    "seconds": {"total": 3.5, "training": 2.5},
    "steps_per_second": 8.0,
    "truncated_targets": 1,
    "freshness": [{"step": 0, "overlap_stale": 1.0, "overlap_corrected": None}],
    "searched": [],
    "curve": [{"step": 10, "seconds": 1.0, "recall@10": 0.4}],
}
MINED = {"row": 4, "text": "a stale one", "score": 0.5, "true_rank": 7}
EXAMPLE = {
    "query": "q",
    "label": {"row": 1, "text": "the label"},
    "true": [{"row": 2, "text": "a true one", "score": 0.75}],
    "stale": [MINED],
    "corrected": [],
}
TRAIN = BOTH | {
    "initial_train_metrics": METRICS,
    "train_metrics": {"recall@1": 0.75, "recall@10": 1.0},
    "batch_size": 4,
    "negatives": {"hard": 4, "uniform": 1, "free": 0},
    "overlap": {"stale": 0.5, "searched": 0.9, "eval_stale": 0.4, "eval_searched": 0.8},
    "corrector_worse_at": [10],
    "examples": [EXAMPLE],
}
ANSWER = {"question": "who", "answer": "me", "gold": ["me", "I"]}
RAG = BOTH | {
    "gold_questions": 5,
    "reader_inputs": 60,
    "reader_truncated": 2,
    "examples": [],
    "answers": [ANSWER],
}
EVALUATE = COUNTS | {
    "strategy": "none",
    "model": "tiny",
    "seed": None,
    "steps": 0,
    "split": "dev",
    "initial_metrics": METRICS,
    "metrics": METRICS,
    "seconds": {"total": 1.0},
    "steps_per_second": None,
    "truncated_targets": 0,
    "freshness": [],
}


@pytest.mark.parametrize("entry", [TRAIN, RAG, EVALUATE])
def test_an_entry_is_written_as_it_was_read(entry: dict[str, Any], tmp_path: Path) -> None:
    write_results(tmp_path, {"name": "world"}, [RunResult.from_json(entry, "here")])
    read = read_results(tmp_path)
    assert read == {"data": {"name": "world"}, "runs": [entry]}


def test_results_from_before_training_queries_were_measured() -> None:
    old = {k: v for k, v in TRAIN.items() if "train_metrics" not in k}
    result = RunResult.from_json(old, "here")
    assert result.trained("recall@1") is None
    assert result.to_json() == old
    assert RunResult.from_json(TRAIN, "here").trained("recall@1") == 0.75


def test_a_result_made_by_hand_is_written_without_what_does_not_apply() -> None:
    label = ListedTarget(1, "the label")
    shown = ExampleQuery(
        "q", label, [ListedTarget(2, "a true one", 0.75)], [ListedTarget(**MINED)], []
    )
    made = RunResult(strategy="s", metrics=METRICS, steps=2, search="ivf", examples=[shown])
    written = made.to_json()
    assert written["examples"] == [EXAMPLE]
    assert written["search"] == "ivf"
    assert written["seed"] is None
    absent = {"model", "answers", "negatives", "reader_inputs", "batch_size"}
    assert not absent & written.keys()
    measured = RunResult(strategy="none", metrics=METRICS).to_json()
    assert not {"search", "curve", "searched", "examples", "candidates_dropped"} & measured.keys()


def test_the_least_that_an_entry_can_have() -> None:
    result = RunResult.from_json({"strategy": "stale", "metrics": METRICS}, "here")
    assert (result.split, result.steps, result.seed) == ("test", 0, None)
    assert result.total_seconds is None
    assert result.answers is None


def test_what_is_no_number_counts_as_absent() -> None:
    odd = {"seed": True, "seconds": {"total": 10**400, "training": float("nan"), "mining": 1.0}}
    result = RunResult.from_json(TRAIN | odd | {"targets_sampled": float("inf")}, "here")
    assert (result.seed, result.targets_sampled, result.seconds) == (None, None, {"mining": 1.0})


def test_training_takes_the_total_where_nothing_else_is_known() -> None:
    result = RunResult(strategy="s", metrics=METRICS, seconds={"total": 3.0})
    assert result.training_seconds == 3
    assert RunResult.from_json(TRAIN, "here").training_seconds == 2.5


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"strategy": 3}, "`strategy` must be a string, got 3"),
        ({"metrics": [1]}, "`metrics` must be an object, got [1]"),
        ({"initial_metrics": {"f1": "x"}}, "`initial_metrics` must be numbers, got 'x' for 'f1'"),
        ({"searched": 5}, "`searched` must be a list, got 5"),
        (
            {"answers": [{"question": "q", "answer": "a", "gold": "me"}]},
            "number 1: `gold` must be a list, got 'me'",
        ),
        ({"examples": [EXAMPLE, {"query": 1}]}, "number 2: `query` must be a string, got 1"),
        (
            {"examples": [EXAMPLE | {"stale": [{"text": "t"}]}]},
            "`stale`, number 1: `row` must be a number, got None",
        ),
    ],
)
def test_an_entry_that_breaks_a_rule_is_named(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=re.escape(rule)) as error:
        RunResult.from_json(TRAIN | change, "results.json, run 2")
    assert str(error.value).startswith("results.json, run 2: ")


def test_only_an_object_is_an_entry() -> None:
    with pytest.raises(InputError, match=r"here must be an object, got \[\]"):
        RunResult.from_json([], "here")


def test_a_comparison_adds_its_summary(tmp_path: Path) -> None:
    run = RunResult.from_json(TRAIN, "here")
    write_results(tmp_path, {}, [run], summary={"mean": {}})
    read = json.loads((tmp_path / "results.json").read_text())
    assert read["summary"] == {"mean": {}}


def test_answers_are_typed() -> None:
    (answer,) = RunResult.from_json(RAG, "here").answers or []
    assert answer == AnsweredQuestion("who", "me", ["me", "I"])
