"""What a file from elsewhere cannot make us do: run code, by pickle, eval, a shell or a model."""

import shutil
from pathlib import Path

import pytest
import torch

import unstale
from unstale.cli.main import main

SOURCES = sorted(Path(unstale.__file__).parent.rglob("*.py"))
SMALL = "--steps 2 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"


# Pickle, eval and shells in the package are refused by ruff: its S rules, and `banned-api`.
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_the_package_never_lets_a_file_or_a_model_run_code(path: Path) -> None:
    source = path.read_text("utf-8").replace(" ", "")
    assert "trust_remote_code=True" not in source
    assert "allow_pickle=True" not in source


def test_going_on_reads_no_pickle_that_could_run(
    beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ["--data", str(beir), "--output", str(tmp_path / "run"), "--save-steps", "1"]
    assert main(["train", *where, *SMALL.split()]) == 0
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "checkpoint-2")
    (tmp_path / "run" / "files.json").unlink()  # as if it had been killed before its end
    plain, read = torch.load, []

    def watched(path, *args, **kwargs):
        assert kwargs.get("weights_only") is True, path
        read.append(Path(path).name)
        return plain(path, *args, **kwargs)

    monkeypatch.setattr(torch, "load", watched)
    assert main(["train", "--resume", "--output", str(tmp_path / "run")]) == 0
    assert set(read) == {"optimizer.pt", "scheduler.pt", "rng_state.pth"}
    assert not list((tmp_path / "run").rglob("training_args.bin"))


def test_a_hub_models_own_code_needs_the_flag() -> None:
    from unstale.cli import options

    assert options.TrainFlags().trust_remote_code is False
