"""The command line as a newcomer uses it, and as a newcomer misuses it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sentence_transformers import SentenceTransformer

from unstale.cli.main import COMMANDS, main
from unstale.miners import strategies
from unstale.rag.check import rag_strategies

SMALL = "--steps 4 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"
_MEASURED = ("recall", "success", "answer_recall")
METRICS = {f"{kind}@{k}" for kind in _MEASURED for k in (1, 5, 10, 20, 100)}
METRICS |= {"mrr@10", "ndcg@10"}
FRESHNESS = {
    "step",
    *(f"{v}_{of}" for v in ("cosine", "kl", "overlap") for of in ("stale", "corrected")),
}


def train(small: list[str], output: Path, *more: str) -> int:
    return main(["train", *small, "--output", str(output), *SMALL.split(), *more])


@pytest.fixture(scope="module")
def run(small: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "run"
    assert train(small, output, "--towers", "separate", "--mine-from", "0.8") == 0
    return output


def test_results_have_the_promised_form(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert results["data"]["targets"] == 120
    (entry,) = results["runs"]
    assert set(entry["metrics"]) == set(entry["initial_metrics"]) == METRICS
    assert all(0 <= v <= 1 for v in entry["metrics"].values())
    assert (entry["strategy"], entry["seed"], entry["steps"], entry["split"]) == (
        "staged",
        0,
        4,
        "test",
    )
    assert entry["targets_reembedded"] == entry["targets_sampled"] == 0
    # The corpus is embedded after 3 of 4 steps; readings after each step that follows.
    assert [f["step"] for f in entry["freshness"]] == [4]
    assert entry["targets_embedded"] == 120
    assert all(set(f) == FRESHNESS for f in entry["freshness"])
    assert entry["targets_probed"] == 1 * 40  # at most --probe-targets at each reading
    assert 4 * 8 <= entry["targets_trained"] <= 4 * 8 * (1 + 2 + 1)
    assert {"total", "embedding", "mining", "evaluation"} <= set(entry["seconds"])
    assert entry["steps_per_second"] > 0


def test_the_model_folder_is_plain(run: Path) -> None:
    model = SentenceTransformer(str(run / "model"), device="cpu")
    assert model.encode_query(["which river was deep?"]).shape == (1, 16)


def test_the_saved_config_repeats_the_run(run: Path, tmp_path: Path) -> None:
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert saved["batch_size"] == 8
    assert saved["towers"] == "separate"
    again = tmp_path / "again"
    assert main(["train", "--config", str(run / "config.yaml"), "--output", str(again)]) == 0
    ours, theirs = (json.loads((r / "results.json").read_text())["runs"][0] for r in (again, run))
    assert ours["metrics"] == theirs["metrics"]
    assert ours["freshness"] == theirs["freshness"]


def test_evaluate_agrees_with_the_run(
    run: Path, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", "--data", str(beir), "--model", str(run / "model"), "--split", "test"]
    assert main([*arguments, "--output", str(tmp_path / "e")]) == 0
    measured = json.loads((tmp_path / "e" / "results.json").read_text())["runs"][0]["metrics"]
    trained = json.loads((run / "results.json").read_text())["runs"][0]["metrics"]
    assert measured == pytest.approx(trained)
    assert "nDCG@10" in capsys.readouterr().out
    assert (tmp_path / "e" / "test.run").read_text() == (run / "test.run").read_text().replace(
        " staged\n", " unstale\n"
    )


def test_search_shows_a_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "which violin was golden?", "--run", str(run), "--k", "3"]) == 0
    shown = capsys.readouterr().out
    assert "violin" in shown
    assert [r for r in ("1", "2", "3") if f" {r} " in shown] == ["1", "2", "3"]


def test_an_embedded_corpus_is_reused(small: list[str], beir: Path, tmp_path: Path) -> None:
    buffer = tmp_path / "buffer"
    assert main(["embed", *small, "--output", str(buffer)]) == 0
    mined = ["--strategy", "corrected"]  # from the first step on
    assert train(small, tmp_path / "run", *mined, "--buffer", str(buffer)) == 0
    entry = json.loads((tmp_path / "run" / "results.json").read_text())["runs"][0]
    assert entry["targets_embedded"] == 0
    assert not (tmp_path / "run" / "buffer").exists()


def test_anything_the_trainer_takes_can_be_set(small: list[str], tmp_path: Path) -> None:
    options = ["--trainer.weight_decay", "0.5", "--trainer.lr_scheduler_type", "constant"]
    assert train(small, tmp_path / "run", *options) == 0
    saved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["trainer"]
    assert saved == {"weight_decay": 0.5, "lr_scheduler_type": "constant"}


def test_a_killed_run_is_resumed_from_its_folder(small: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(small, run, "--save-steps", "2") == 0
    (expected,) = json.loads((run / "results.json").read_text())["runs"]
    shutil.rmtree(run / "checkpoints" / "checkpoint-4")
    (run / "results.json").unlink()
    assert main(["train", "--resume", "--output", str(run)]) == 0  # the folder knows the rest
    (found,) = json.loads((run / "results.json").read_text())["runs"]
    for key in ("metrics", "freshness", "targets_trained", "targets_probed"):
        assert found[key] == expected[key], key


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (["--strategy", "newest"], "unknown strategy 'newest'; choose from staged"),
        (["--model", "no-such-model"], "cannot load the model 'no-such-model'"),
        (["--model", "/no/such"], "no model folder"),
        (["--data", "/no/such/data"], "and no built-in set (docstrings, facts)"),
        (["--data", "docstrings:no_such_package"], "cannot find the package 'no_such_package'"),
        (["--eval-split", "validation"], "no split 'validation'"),
        (["--hard-negatives", "121"], "cannot take 121 negatives a query from 120 targets"),
        (["--batch-size", "81"], "a batch of 81 needs as many training pairs; there are 80"),
        (["--steps", "-1"], "--steps must be at least 0, got -1"),
        (["--steps", "3", "--epochs", "1"], "--steps 3 and --epochs 1.0: use one of them"),
        (["--scale", "0"], "--scale must be above 0, got 0"),
        (["--device", "nope"], "cannot use the device 'nope'"),
        (["--probe-queries", "0"], "--probe-queries must be at least 1, got 0"),
        (["--towers", "tied", "--query-max-length", "9"], "unless --towers separate"),
        (["--buffer", "/no/such"], "is not a buffer"),
        (["--trainer.no_such_thing", "1"], "--trainer.no_such_thing: a run takes only adam_beta1"),
        (["--corrector-hidden", "-3"], "widths of at least 1, got -3"),
        (["--strategy", "stale-frozen", "--towers", "tied"], "needs separate towers"),
        (["--resume"], "nothing to resume"),
        (["--layers", "2"], "has no transformer layers"),
    ],
)
def test_bad_input_is_one_clear_line_and_writes_nothing(
    small: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    rule: str,
) -> None:
    assert train(small, tmp_path / "run", *flags) == 2
    error = capsys.readouterr().err
    assert rule in error
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_a_bad_flag_value_is_named(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(small, tmp_path / "run", "--steps", "many") == 2
    error = capsys.readouterr().err
    assert "steps" in error
    assert "usage" not in error  # a page of it would hide the error
    assert train(small, tmp_path / "run", "--stepz", "3") == 2
    assert "did you mean --steps?" in capsys.readouterr().err


def test_a_wrong_key_in_a_config_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mine.yaml"
    for text, said in [("batch_sizes: 3\n", "--batch-size?"), ("steps: many\n", "many")]:
        config.write_text(text)
        assert main(["train", "--config", str(config)]) == 2
        error = capsys.readouterr().err
        assert str(config) in error
        assert said in error


def test_a_folder_in_use_is_not_touched(
    run: Path, small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "results.json").read_bytes()
    assert train(small, run) == 2
    assert "is not empty; use --overwrite or --resume" in capsys.readouterr().err
    assert (run / "results.json").read_bytes() == before
    mine = tmp_path / "photos"
    mine.mkdir()
    (mine / "cat.jpg").write_text("precious")
    assert train(small, mine, "--overwrite") == 2
    assert "was not written by unstale" in capsys.readouterr().err
    assert (mine / "cat.jpg").read_text() == "precious"
    (mine / "config.yaml").write_text("lr: 1\n")  # somebody else's
    assert train(small, mine, "--overwrite") == 2
    assert main(["demo", "--output", str(mine)]) == 2
    assert (mine / "cat.jpg").exists()
    assert main(["demo", "--output", str(run)]) == 2  # a training run is not a demo's to replace
    assert (run / "results.json").read_bytes() == before


def test_overwrite_does_not_delete_what_the_command_reads(
    run: Path, small: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(small, run, "--overwrite", "--data", str(run / "model")) == 2
    assert train(small, run, "--overwrite", "--model", str(run / "model")) == 2
    assert "--overwrite would delete" in capsys.readouterr().err
    assert (run / "model" / "modules.json").exists()


def test_going_on_with_other_flags_is_refused(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(small, tmp_path / "run") == 0
    assert main(["train", "--resume", "--output", str(tmp_path / "run"), "--steps", "9"]) == 2
    assert "with --steps 9: it began with 4" in capsys.readouterr().err


def test_overwrite_replaces_an_earlier_run(small: list[str], tmp_path: Path) -> None:
    assert train(small, tmp_path / "run", "--seed", "1") == 0
    assert train(small, tmp_path / "run", "--overwrite", "--strategy", "in-batch") == 0
    (entry,) = json.loads((tmp_path / "run" / "results.json").read_text())["runs"]
    assert (entry["strategy"], entry["seed"], entry["freshness"]) == ("in-batch", 0, [])


def test_a_buffer_of_another_model_is_refused_before_any_work(
    small: list[str], bert_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    buffer = tmp_path / "buffer"
    assert main(["embed", *small, "--output", str(buffer)]) == 0
    flags = ["--model", str(bert_folder), "--buffer", str(buffer)]
    assert train(small, tmp_path / "run", *flags) == 2
    error = capsys.readouterr().err
    assert "weights: the buffer has" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [[], *([c] for c in COMMANDS)])
def test_help_teaches_and_does_not_wait_for_torch(command: list[str]) -> None:
    code = "import sys; from unstale.cli.main import main\ntry: main(sys.argv[1:])\nfinally: "
    # Three describe every strategy, also those of other packages, which may need torch.
    describes = command in (["train"], ["compare"], ["rag"])
    code += "pass" if describes else "assert 'torch' not in sys.modules"
    environment = os.environ | {"COLUMNS": "9999"}  # a name is not broken at its hyphen
    shown = subprocess.run(
        [sys.executable, "-c", code, *command, "--help"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    ).stdout
    assert "usage: unstale" in shown
    assert "AssertionError" not in shown
    if describes:
        words = " ".join(shown.split())
        known = rag_strategies() if command == ["rag"] else strategies()
        assert all(f" {name}: " in words for name in known)


def test_a_cut_model_is_shown_beside_the_whole_one(
    small: list[str], bert_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", str(bert_folder), "--towers", "tied"]
    assert train(small, tmp_path / "run", *words, "--layers", "1") == 0
    shown = capsys.readouterr().out
    entry = json.loads((tmp_path / "run" / "results.json").read_text())["runs"][0]
    assert main(["evaluate", *small, *words, "--output", str(tmp_path / "whole")]) == 0
    measured = json.loads((tmp_path / "whole" / "results.json").read_text())["runs"][0]["metrics"]
    assert entry["full_metrics"] == pytest.approx(measured)
    assert entry["full_metrics"] != entry["initial_metrics"]
    assert entry["shape"]["layers"] == 1
    assert "before, whole model" in shown
    assert train(small, tmp_path / "fast", *words, "--layers", "1", "--no-measure-whole") == 0
    assert "whole model" not in capsys.readouterr().out
    assert "before, cut" in shown


def test_a_table_of_training_queries_says_so(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(small, tmp_path / "run", "--eval-split", "train") == 0
    shown = capsys.readouterr().out
    assert "MEASURED ON TRAINING QUERIES" in shown
    assert "epochs of 80 pairs" in shown


def test_a_training_that_changed_nothing_says_so_below_its_table(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(small, tmp_path / "run", "--learning-rate", "10") == 0
    assert "the saved model is the one before training" in capsys.readouterr().out
