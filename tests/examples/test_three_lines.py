"""The stock script, and the same with three lines changed: both run, and no more is changed."""

import json
import logging
import runpy
import sys
from difflib import unified_diff
from pathlib import Path

import datasets
import pytest
from sentence_transformers import SentenceTransformer

from unstale import FreshNegatives
from unstale.data.dataset import RetrievalDataset

EXAMPLES = Path(__file__).parents[2] / "examples"


def code(name: str) -> list[str]:
    """Return a script's lines without its docstring and blank lines."""
    lines = (EXAMPLES / name).read_text().partition("import sys")[2].splitlines()
    return [line for line in lines if line]


def test_three_lines_are_changed() -> None:
    diff = list(unified_diff(code("before.py"), code("after.py"), n=0))[2:]
    assert sum(line.startswith("-") for line in diff) == 3
    changed = [line for line in diff if line.startswith("+")]
    assert [line[-3:] for line in changed] == ["# 1", "# 2", "# 3"]


def test_where_mining_does_not_pay_fresh_negatives_say_so(
    bert_model: SentenceTransformer, caplog: pytest.LogCaptureFixture
) -> None:
    rows = datasets.Dataset.from_dict({"query": list("abcdefgh"), "positive": list("ijklmnop")})
    caplog.set_level(logging.WARNING)
    FreshNegatives(bert_model, rows, hard_negatives=2, progress=False)
    assert "staged mines no hard negatives among fewer than 10,000 targets (here 8)" in caplog.text


@pytest.mark.filterwarnings("ignore:.*pin_memory")  # the script need not say what it runs on
@pytest.mark.parametrize("script", ["before.py", "after.py"])
def test_the_script_trains(
    script: str,
    dataset: RetrievalDataset,
    bert_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = dataset.split("train").pairs
    texts = zip(dataset.queries.take(pairs[:, 0]), dataset.targets.take(pairs[:, 1]), strict=True)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"query": q, "positive": p}) + "\n" for q, p in texts))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr("unstale.training.settings._LARGE", 1)  # so that mining pays here
    monkeypatch.setattr(sys, "argv", [script, str(bert_folder), str(rows), str(tmp_path / "out")])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    trained = SentenceTransformer(str(tmp_path / "out" / "model"), device="cpu")
    start = SentenceTransformer(str(bert_folder), device="cpu")
    assert (trained.encode(["a river"]) != start.encode(["a river"])).any()
    card = (tmp_path / "out" / "model" / "README.md").read_text()
    assert ("Freshness of the negatives at step 5" in card) == (script == "after.py")
