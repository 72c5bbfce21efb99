"""The comparison with sentence-transformers, small: it trains all, keeps all, and goes on."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

from unstale.errors import InputError

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "vs_sentence_transformers.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))  # as for a script that is run
    spec = spec_from_file_location("vs_sentence_transformers", SCRIPT)
    module = module_from_spec(spec)
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
def test_every_method_for_the_same_seconds_and_the_rest_after_an_interruption(
    script, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The margin of `mined` would leave too few pairs of so small a world.
    guide = words[words.index("--model") + 1]
    more = ["--methods", "in-batch; large batch; GIST; three lines", "--guide", guide]
    script(*words, *more, "--seeds", "0,1")
    runs = json.loads((tmp_path / "runs.json").read_text())["runs"]
    names = ["unstale, staged", "unstale, in-batch", "in-batch", "large batch", "GIST"]
    names.append("three lines")
    assert [(r["method"], r["seed"]) for r in runs] == [
        ("before", 0), *((name, seed) for seed in (0, 1) for name in names)
    ]  # fmt: skip
    steps = {name: {r["steps"] for r in runs if r["method"] == name} for name in names}
    assert all(len(own) == 1 for own in steps.values())  # fitted once, for all seeds
    assert len({json.dumps(r["metrics"]) for r in runs if r["seed"] == 0}) > 3  # not one training
    shown = capsys.readouterr().out
    assert "| unstale, staged |" in shown
    assert "| three lines |" in shown

    kept = [r for r in runs if (r["method"], r["seed"]) != ("GIST", 1)]
    found = json.loads((tmp_path / "runs.json").read_text())
    (tmp_path / "runs.json").write_text(json.dumps(found | {"runs": kept}))
    script(*words, *more, "--seeds", "0,1")
    again = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert again[:-1] == kept  # none trained again
    assert (again[-1]["method"], again[-1]["seed"]) == ("GIST", 1)
    with pytest.raises(InputError, match="other settings"):
        script(*words, "--steps", "4")


def test_queries_pass_through_their_own_tower(script, words: list[str], tmp_path: Path) -> None:
    """Without a router mapping sentence-transformers would train the target tower alone."""
    arguments = script.module.argparse.Namespace(
        data=words[1], model="tiny", layers=None, max_length=None, eval_split="dev", steps=2,
        batch_size=8, hard_negatives=2, large_batch=16, learning_rate=1e-2,
        bf16=False,
    )  # fmt: skip
    bench = script.module.Benchmark(arguments)
    trained, _ = bench.stock("in-batch", 0, bench.pairs, 2)
    for task in ("query", "document"):
        before, after = (
            next(m[0].sub_modules[task].parameters()) for m in (bench.start(), trained)
        )
        assert not torch.equal(before, after), task
