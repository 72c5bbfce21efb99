"""Each recipe of the paper runs to its end on a miniature of the real files, stage by stage."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests import miniatures

from unstale.cli.main import main as unstale
from unstale.data.load import load_dataset

SCRIPTS = Path(__file__).parents[2] / "experiments"
SMALL = (
    "--model tiny --steps 4 --batch-size 8 --hard-negatives 2 --uniform-negatives 2 "
    "--corrector-hidden 16 --subset-size 40 --refreshes 2 --probe-targets 20 --probe-queries 4 "
    "--save-steps 2 --mini-batch-size 8 --dtype float16 --trainer.bf16 false --device cpu"
).split()
READ = (
    "--retriever tiny --reader tiny --steps 4 --batch-size 4 --k 3 --corrector-hidden 16 "
    "--refreshes 2 --probe-targets 20 --probe-queries 4 --save-steps 2 --trainer.bf16 false "
    "--reader-max-length 40 --answer-length 8 --device cpu"
).split()


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch):
    """Run `python experiments/NAME.py WORDS`, and leave no trace."""
    monkeypatch.syspath_prepend(str(SCRIPTS))

    def call(name: str, *words: str) -> int:
        script = import_module(name)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, words)])
        if name == "rlm":
            return script.main()
        return script.run(script.__doc__, script.METHODS, script.COLUMNS, **script.ABOUT)

    yield call
    for name in ("subset", "paper", "nq", "msmarco", "rlm"):
        sys.modules.pop(name, None)


def test_nq_is_one_pair_a_question_and_a_test_set_of_answers(tmp_path: Path) -> None:
    dataset = load_dataset(str(miniatures.nq(tmp_path / "nq")))
    assert dataset.counts == {
        "name": "nq", "targets": 192, "queries": 48, "duplicate_texts": 0, "train_pairs": 24,
        "dev_pairs": 12, "test_questions": 12,
    }  # fmt: skip


@pytest.mark.slow
def test_nq_embeds_trains_resumes_compares_and_evaluates(
    recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(miniatures.nq(tmp_path / "nq"))
    buffer, output = str(tmp_path / "buffer"), tmp_path / "run"
    shape = "--model tiny --towers separate --query-max-length 32 --target-max-length 128".split()
    embed = ["embed", "--data", data, *shape, "--dtype", "float16", "--output", buffer]
    assert unstale([*embed, "--device", "cpu"]) == 0
    words = ["--data", data, "--output", output, "--buffer", buffer, *SMALL]
    assert recipe("nq", *words) == 0
    assert unstale(["train", "--output", str(output), "--resume"]) == 0
    assert unstale(["verify", str(output)]) == 0
    (run,) = json.loads((output / "results.json").read_text())["runs"]
    by_gold, by_answer = ("recall@20", "success@20"), ("answer_recall@20", "test:answer_recall@20")
    assert {*by_gold, *by_answer} <= run["metrics"].keys()
    assert "test:recall@20" not in run["metrics"]
    capsys.readouterr()

    table = tmp_path / "compare"
    assert recipe("nq", "--data", data, "--compare", "--output", table, *SMALL) == 0
    printed = capsys.readouterr().out
    (head,) = [line for line in printed.splitlines() if "dev R@1 " in line]
    cutoffs = (1, 5, 10, 20, 100)
    named = [*(f"dev R@{k}" for k in cutoffs), *(f"test A@{k}" for k in cutoffs)]
    assert " ".join(head.split()).startswith(" ".join(named))
    for strategy in ("in-batch", "stale", "dynnibal", "corrected", "two-round", "exhaustive"):
        assert any(line.split()[:1] == [strategy] for line in printed.splitlines()), strategy
    results = table / "results.json"
    assert recipe("nq", "--table", "--results", results) == 0
    filled = [line for line in capsys.readouterr().out.splitlines() if "; test " in line]
    names = [line.split("`")[1].removeprefix("nq.py --start gtr --method ") for line in filled]
    # Of a start's variants, those that were compared: no row has the numbers of another.
    assert names == "in-batch stale corrected two-round dynnibal-2 stochastic exhaustive".split()
    assert all("| dev " in line for line in filled)

    measured = ["--model", str(output / "model"), "--data", data, "--output", str(tmp_path / "e")]
    assert unstale(["evaluate", *measured, "--split", "test", "--device", "cpu"]) == 0
    (found,) = json.loads((tmp_path / "e" / "results.json").read_text())["runs"]
    again = {k.removeprefix("test:"): v for k, v in run["metrics"].items() if k.startswith("test:")}
    assert found["metrics"] == pytest.approx(again)


@pytest.mark.slow
def test_msmarco_embeds_trains_and_compares(recipe, tmp_path: Path) -> None:
    data = str(miniatures.msmarco(tmp_path / "msmarco"))
    assert recipe("msmarco", "--data", data, "--output", tmp_path / "run", *SMALL) == 0
    (run,) = json.loads((tmp_path / "run" / "results.json").read_text())["runs"]
    assert run["split"] == "dev.small"
    assert recipe("msmarco", "--data", data, "--compare", "--output", tmp_path / "c", *SMALL) == 0
    assert len(json.loads((tmp_path / "c" / "results.json").read_text())["runs"]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nq", "tqa", "hpqa"])
def test_every_qa_set_trains_retriever_and_reader(recipe, name: str, tmp_path: Path) -> None:
    data = miniatures.qa(tmp_path / name, name)
    methods = ("none", "frozen", "corrected", "exhaustive") if name == "nq" else ("corrected",)
    for method in methods:
        output = tmp_path / method
        words = ["--data", data, "--set", name, "--method", method, "--output", output, *READ]
        assert recipe("rlm", *words) == 0
        (run,) = json.loads((output / "results.json").read_text())["runs"]
        assert "exact_match" in run["metrics"]
        assert ("answer_recall@100" in run["metrics"]) == (method != "none")
