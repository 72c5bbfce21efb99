"""False negatives, from the command line to results.json."""

import json
import shutil
from pathlib import Path

import pytest

from unstale.cli.main import main

SMALL = """--strategy corrected --steps 4 --batch-size 8 --hard-negatives 2 --corrector-hidden 24
--probe-targets 40"""


def train(small: list[str], output: Path, *more: str) -> int:
    return main(["train", *small, "--output", str(output), *SMALL.split(), *more])


def test_what_filters_drop_is_counted_shown_and_survives_a_resume(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = "--relative-margin 0.05 --max-score 0.9 --range-min 1 --save-steps 2".split()
    assert train(small, tmp_path / "run", *flags) == 0
    assert "of 672 candidates dropped: relative_margin" in capsys.readouterr().out
    (entry,) = json.loads((tmp_path / "run" / "results.json").read_text())["runs"]
    # 4 steps of 8 queries, for 2 negatives 20 candidates each and the one to skip.
    assert entry["candidates_considered"] == 4 * 8 * 21
    assert set(entry["candidates_dropped"]) == {"relative_margin", "max_score", "range_min"}
    assert entry["candidates_dropped"]["range_min"] > 0
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "checkpoint-4")
    (tmp_path / "run" / "files.json").unlink()  # as if it had been killed before its end
    assert main(["train", "--resume", "--output", str(tmp_path / "run")]) == 0
    (again,) = json.loads((tmp_path / "run" / "results.json").read_text())["runs"]
    for key in ("candidates_dropped", "candidates_considered", "negatives_missing", "metrics"):
        assert again[key] == entry[key], key


def test_a_cross_encoder_may_veto(small: list[str], write_cross_encoder, tmp_path: Path) -> None:
    cross = write_cross_encoder(tmp_path / "cross")
    assert train(small, tmp_path / "run", "--cross-encoder", str(cross)) == 0
    (entry,) = json.loads((tmp_path / "run" / "results.json").read_text())["runs"]
    assert entry["candidates_dropped"]["cross_encoder"] > 0


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ("--max-score 0.5 --strategy in-batch", "in-batch cannot filter false negatives"),
        ("--range-min 5 --range-max 6", "cannot mine 2 targets between --range-min 5"),
        ("--cross-encoder /no/such", "no model folder '/no/such'"),
    ],
)
def test_filters_that_cannot_work_are_refused_before_any_work(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: str, rule: str
) -> None:
    assert train(small, tmp_path / "run", *flags.split()) == 2
    assert rule in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
