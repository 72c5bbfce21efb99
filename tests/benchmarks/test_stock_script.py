"""The stock script against the changed one, small: both train, all is kept."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "stock_script.py"


@pytest.mark.slow
def test_both_scripts_train_for_equal_time(
    beir: Path,
    bert_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = spec_from_file_location("stock_script", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    flags = {"data": beir, "model": bert_folder, "layers": 1, "steps": 3, "batch-size": 4}
    flags |= {"hard-negatives": 1, "learning-rate": 1e-2, "json": tmp_path / "runs.json"}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, *words])
    module.main()
    runs = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert [r["method"] for r in runs] == [
        "before training", "three lines changed", "stock script", "stock script",
    ]  # fmt: skip
    assert [r["steps"] for r in runs[1:3]] == [3, 3]
    assert runs[1]["metrics"] != runs[2]["metrics"] != runs[0]["metrics"]
    assert runs[3]["steps"] >= 2
    assert "| three lines changed |" in capsys.readouterr().out
    module.main()  # nothing is trained again
    assert json.loads((tmp_path / "runs.json").read_text())["runs"] == runs
