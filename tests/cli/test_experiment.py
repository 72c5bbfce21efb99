"""`unstale experiment`, as a newcomer uses and misuses it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unstale
from experiments.registry import SETTINGS, STUDIES, find_study
from experiments.studies.declared import GridSettings
from unstale.cli.main import main


@pytest.mark.parametrize("name", STUDIES)
def test_every_experiment_that_is_named_exists(name: str) -> None:
    study = find_study(name)
    assert study.name == name
    assert SETTINGS.get(name, GridSettings) is study.settings  # read without importing it


def test_an_unknown_experiment_is_refused_with_all_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "circle", "--output", str(tmp_path / "a")]) == 2
    said = capsys.readouterr().err
    assert "there is no experiment 'circle'; the experiments are:" in said
    for name, about in STUDIES.items():
        assert f"\n  {name} " in said
        assert about in said
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("toy-circle --set.colour red", "toy-circle has no setting colour; it takes epochs, seed"),
        (
            "toy-circle --set.colour red",
            "--set.epochs: The largest number of epochs. (default",
        ),
        ("toy-circle --data facts", "toy-circle has no setting data"),
        ("toy-circle --seed -1", "--seed must be at least 0, got -1"),
        ("generalization --set.queries 0", "--set.queries must be at least 1, got 0"),
        (
            "generalization --set.queries -3",
            "--set.queries must be at least 1, got -3",
        ),
        ("generalization --set.queries many", "--set.queries many: expected a whole number"),
        ("generalization --set.queries 2.5", "--set.queries 2.5: expected a whole number"),
        (
            "synthetic-parameters --set.gains 4",
            "--set.gains must be at most 3, got 4",
        ),
        (
            "synthetic-parameters --set.fraction 2",
            "--set.fraction must be at most 1, got 2",
        ),
        ("synthetic-parameters --set.fraction 0", "--set.fraction 0.0 of 4096 targets leaves none"),
        ("small-to-large --set.epochs 3", "small-to-large needs --data"),
        ("small-to-large --data docstrings --set.scale 0", "--set.scale must be above 0, got 0"),
        ("migration --data docstrings --set.method best", "expected one of auto, linear"),
        ("migration --data docstrings --set.fractions 0.1", "expected a list of numbers, as in"),
        (
            "migration --data docstrings --set.fractions [0.1,1.5]",
            "--set.fractions must be at most 1, got 1.5",
        ),
        ("sampling --set.model 3", "--set.model 3: expected text"),
        ("sampling --set.seeds 1,1", "seeds must be different whole numbers"),
        ("sampling --set.seeds 1.5", "--set.seeds 1.5: expected a whole number or text"),
        ("sampling --set.train [3]", "--train [3]: expected a mapping"),
    ],
)
def test_a_wrong_setting_is_refused_before_any_work(
    words: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", *words.split(), "--output", str(tmp_path / "a")]) == 2
    assert rule in capsys.readouterr().err
    assert not list(tmp_path.rglob("results.json"))


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


def test_without_a_checkout_there_are_no_experiments(tmp_path: Path) -> None:
    """Run a copy of the package alone, as a wheel installs it, in one folder and the other."""
    package = Path(unstale.__file__).parent
    shutil.copytree(package, tmp_path / "site" / "lib" / "unstale")
    words = [sys.executable, "-m", "unstale.cli.main", "experiment", "circle", "--output", "a"]
    alone = os.environ | {"PYTHONPATH": str(tmp_path / "site" / "lib")}
    for place, rule in (
        (tmp_path, "part of unstale's source checkout, not of the installed package"),
        (package.parents[1], "there is no experiment 'circle'; the experiments are:"),
    ):
        found = subprocess.run(
            words, cwd=place, env=alone, capture_output=True, text=True, check=False
        )
        assert found.returncode == 2, found.stderr
        assert rule in found.stderr
        assert "Traceback" not in found.stderr
    assert not (tmp_path / "a").exists()
