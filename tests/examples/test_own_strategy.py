"""A strategy of another package: registered in a script, or announced to the command line."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tests.materials import small_materials
from tests.miners.test_contract import batch

from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError
from unstale.miners import Stale, Strategy, find_strategy, register, strategies, strategy
from unstale.training.job import train

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_strategy.py"
NAME = "stale-without-first"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Strategy:
    """The example's strategy; what a test registers is forgotten after it."""
    monkeypatch.setattr(strategy, "_REGISTERED", strategies())
    spec = importlib.util.spec_from_file_location("own_strategy", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.STRATEGY


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 40


def test_it_is_known_by_its_name_once_it_is_registered(own: Strategy) -> None:
    with pytest.raises(InputError, match=f"unknown strategy '{NAME}'"):
        find_strategy(NAME)
    assert register(own) is find_strategy(NAME)
    register(own)  # again does no harm
    other = Strategy(name="stale", negatives_from="elsewhere", build=own.build)
    with pytest.raises(InputError, match="a strategy named 'stale' is registered already"):
        register(other)


def test_it_skips_the_nearest(own: Strategy) -> None:
    made = small_materials()
    found, every = own.build(made).mine(batch(), 5), Stale(made.cache).mine(batch(), 6)
    assert torch.equal(found, every[:, 1:])


def test_a_script_trains_with_it(
    own: Strategy, static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    register(own)
    small = {"steps": 2, "batch_size": 8, "hard_negatives": 2, "probe_targets": 40}
    result = train(dataset, static_model, tmp_path, strategy=NAME, progress=False, **small)
    assert result.strategy == NAME
    assert result.targets_trained > 2 * 8
    assert len(result.freshness) == 3  # the meter reads what it caches
    assert all(example.stale for example in result.examples)


@pytest.mark.slow
def test_the_command_line_knows_what_a_package_announces(
    beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    info = tmp_path / "site" / "own_strategy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-strategy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[unstale.strategies]\n{NAME} = own_strategy:STRATEGY\n"
    )
    (tmp_path / "site" / EXAMPLE.name).write_text(EXAMPLE.read_text())
    places = [str(tmp_path / "site"), *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "COLUMNS": "9999"}

    def unstale(*words: str) -> str:
        command = [sys.executable, "-m", "unstale.cli.main", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert not done.returncode, done.stderr[-2000:]
        return done.stdout

    assert f" {NAME}: the cached embeddings, without the nearest" in unstale("train", "--help")
    where = ["--data", str(beir), "--model", str(bert_folder), "--output", str(tmp_path / "run")]
    small = "--steps 2 --batch-size 8 --hard-negatives 2 --probe-targets 40 --device cpu --layers 1"
    unstale("train", *where, "--strategy", NAME, *small.split())
    (entry,) = json.loads((tmp_path / "run" / "results.json").read_text())["runs"]
    assert (entry["strategy"], entry["steps"]) == (NAME, 2)
