"""The comparison with sentence-transformers, small: it trains all, keeps all, and goes on."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "vs_sentence_transformers.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    spec = spec_from_file_location("vs_sentence_transformers", SCRIPT)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look themselves up
    spec.loader.exec_module(module)

    def run(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", [SCRIPT.name, *words])
        module.main()

    run.module = module
    return run


@pytest.fixture
def words(beir: Path, bert_folder: Path, tmp_path: Path) -> list[str]:
    flags = {"data": beir, "model": bert_folder, "layers": 1, "steps": 3, "batch-size": 4}
    flags |= {"large-batch": 16, "hard-negatives": 1, "learning-rate": 1e-2}
    flags |= {"json": tmp_path / "runs.json"}
    return [word for name, value in flags.items() for word in (f"--{name}", str(value))]


@pytest.mark.slow
def test_every_method_twice_and_the_rest_after_an_interruption(
    script, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The 5% margin would leave too few pairs of so small a world.
    methods = ["--methods", "in-batch; mined; large batch"]
    script(*words, *methods)
    found = json.loads((tmp_path / "runs.json").read_text())
    alone = [r for r in found["runs"] if r["mode"] == script.module.STEPS]
    names = ["in-batch", "mined", "large batch", "unstale, corrected"]
    assert [r["method"] for r in alone] == names
    assert all(r["steps"] == 3 and r.get("pairs", 80) == 80 for r in alone)
    timed = [r for r in found["runs"] if r["mode"] == script.module.SECONDS]
    (ours,) = (r for r in found["runs"] if r["method"] == "unstale, staged")
    assert [r["method"] for r in timed] == names
    assert len({json.dumps(r["metrics"]) for r in alone}) == 4  # trainings, not one
    shown = capsys.readouterr().out
    assert "| unstale, staged |" in shown
    assert "| mined, equal seconds |" in shown

    kept = [r for r in found["runs"] if (r["method"], r["mode"]) != ("mined", "equal seconds")]
    (tmp_path / "runs.json").write_text(json.dumps(found | {"runs": kept}))
    script(*words, *methods)
    again = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert len(again) == len(found["runs"])
    assert ours in again  # not trained again
    with pytest.raises(SystemExit):
        script(*words, "--steps", "4")
    assert "other settings" in capsys.readouterr().err


def test_queries_pass_through_their_own_tower(script, words: list[str], tmp_path: Path) -> None:
    """Without a router mapping sentence-transformers would train the target tower alone."""
    arguments = script.module.argparse.Namespace(
        data=words[1], model="tiny", layers=None, max_length=None, eval_split="dev", steps=2,
        batch_size=8, hard_negatives=2, large_batch=16, learning_rate=1e-2,
    )  # fmt: skip
    bench = script.module.Benchmark(arguments)
    trained = []
    bench.evaluate = lambda model: trained.append(model) or {}
    bench.sentence_transformers("in-batch", 0, bench.pairs, 2)
    for task in ("query", "document"):
        before, after = (
            next(m[0].sub_modules[task].parameters()) for m in (bench.start(), trained[0])
        )
        assert not torch.equal(before, after), task
