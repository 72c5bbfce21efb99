"""Every stage of the large corpus, small: what is resumed finds what the checkpoint found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "large.py"


@pytest.mark.slow
def test_all_stages_run_and_are_measured(tmp_path: Path) -> None:
    folder = tmp_path / "large"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--folder", str(folder), "--targets", "20000",
         "--searches", "5"],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
        timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert not folder.exists()
    for stage in (
        "embed, int8",
        "cells",
        "5 searches",
        "scan both views, 64 queries",
        "resume",
        "verify",
    ):
        assert f"| {stage} |" in done.stdout, stage
    assert "DAMAGED" not in done.stdout
