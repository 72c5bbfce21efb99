"""The migration in Python: it runs, and ends where the command ends."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.cli.main import main

SCRIPT = Path(__file__).parents[2] / "examples" / "migrate.py"


def test_the_script_writes_what_the_command_writes(
    beir: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    assert main(["embed", "--data", str(beir), "--output", str(old)]) == 0
    words = ["--vectors", str(old), "--data", str(beir), "--model", str(bert_folder)]
    words += ["--count", "100", "--output", str(tmp_path / "told")]
    assert main(["correct", *words]) == 0
    capsys.readouterr()
    argv = [str(SCRIPT), str(old), str(beir), str(bert_folder), "100", str(new)]
    monkeypatch.setattr(sys, "argv", argv)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    *measures, verdict, path = capsys.readouterr().out.splitlines()
    assert "Advice: " in verdict
    assert [line.partition(":")[0] for line in measures] == ["cosine", "overlap@10", "recall@10"]
    every = torch.arange(120)
    told, made = (TargetBuffer.open(p)[every] for p in (next(tmp_path.glob("told/v*")), Path(path)))
    np.testing.assert_allclose(made.numpy(), told.numpy(), atol=1e-5)
