"""`unstale experiment`, as a newcomer uses and misuses it."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from unstale.cli.experiment import EXPERIMENTS
from unstale.cli.main import main


def test_every_experiment_that_is_named_exists() -> None:
    for target in EXPERIMENTS.values():
        module, function = target.split(":")
        assert callable(getattr(import_module(module), function))


def test_an_unknown_experiment_or_setting_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "circle", "--output", str(tmp_path / "a")]) == 2
    assert "there are generalization, hard-negatives" in capsys.readouterr().err
    words = ["experiment", "toy-circle", "--set.colour", "red", "--output", str(tmp_path / "a")]
    assert main(words) == 2
    assert "toy-circle has no setting colour; it takes epochs, seed" in capsys.readouterr().err
    for wrong in ("0", "-3", "many", "2.5"):
        words = ["experiment", "generalization", "--set.queries", wrong, "--output", "a"]
        assert main(words) == 2
        rule = f"--set.queries {wrong}: expected a whole number, at least 1"
        assert rule in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_folder_in_which_nothing_was_made_may_be_used_again(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment", "sampling", "--data", str(beir), "--output", str(tmp_path / "a")]
    for more in (["--set.split", "exam"], ["--train.bogus", "3"]):
        assert main([*words, *more]) == 2
        assert "not empty" not in capsys.readouterr().err


def test_an_experiment_runs_from_the_command_line(tmp_path: Path) -> None:
    output = tmp_path / "circle"
    words = ["experiment", "toy-circle", "--set.epochs", "60", "--output", str(output)]
    assert main(words) == 0
    results = json.loads((output / "results.json").read_text())
    assert results["settings"]["epochs"] == 60
    assert results["kl_corrected"] < results["kl_stale"]
    assert (output / "figure.png").read_bytes().startswith(b"\x89PNG")
