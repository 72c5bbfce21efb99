"""A run killed anywhere, and resumed, ends bit for bit as one that was never interrupted."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tests.kill import results, weights

from unstale.cli.main import main
from unstale.integrity import seal
from unstale.miners import strategies
from unstale.written import LIST, LOCK

STEP = "unstale.training.algorithm1:FreshNegativesLoss.forward"
SMALL = """--steps 6 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-queries 8
--probe-targets 40 --learning-rate 1e-2 --layers 1 --towers separate --save-steps 2 --eval-steps 3
--refreshes 2 --subset-size 40 --refresh-below 0.99 --device cpu --no-measure-whole"""

CASES = {name: ["--strategy", name] for name in strategies()} | {
    "half a buffer": ["--dtype", "float16", "--strategy", "exhaustive"],
}
_MINED_AT_ONCE = {
    "sampled": ["--sampling", "gumbel"],
    "rolling": ["--search", "rolling"],
    "ivf": ["--search", "ivf"],
    "paper": ["--corrector-loss", "ce", "--no-memory", "--no-fallback"],
    "dropout": ["--dropout"],
    "accumulated": ["--trainer.gradient_accumulation_steps", "2"],
    "a quarter of a buffer": ["--dtype", "int8", "--search", "rolling"],
}
CASES |= {case: ["--strategy", "corrected", *flags] for case, flags in _MINED_AT_ONCE.items()}
CASES["staged"] += ["--mine-from", "0.5"]
CASES["staged, searched"] = ["--mine-from", "0.3", "--search", "rolling", "--dtype", "int8"]


@pytest.fixture(scope="module")
def command(beir: Path, bert_folder: Path):
    def arguments(output: Path, *more: str) -> list[str]:
        where = ["--data", str(beir), "--model", str(bert_folder), "--output", str(output)]
        return ["train", *where, *SMALL.split(), *more]

    return arguments


@pytest.fixture(scope="module")
def never_killed(command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    whole = tmp_path_factory.mktemp("never") / "whole"
    assert main(command(whole)) == 0
    return whole


# One of each kind of state in every test run, the others with the slow tests.
QUICK = {"rolling", "staged, searched"}


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in sorted(CASES)]
)
def test_killed_at_a_step_and_resumed(command, kill, tmp_path: Path, case: str) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert main(command(whole, *CASES[case])) == 0
    step = 8 if case == "accumulated" else 4
    kill(command(run, *CASES[case]), STEP, step)
    assert not (run / "results.json").exists()
    assert main(["train", "--resume", "--output", str(run)]) == 0
    assert results(run) == results(whole)
    assert weights(run) == weights(whole)


@pytest.fixture(scope="module")
def measured() -> list[str]:
    return ["--strategy", "corrected", "--eval-steps", "2"]


@pytest.fixture(scope="module")
def resumed(command, measured: list[str], kill, tmp_path_factory) -> tuple[Path, dict[str, float]]:
    """A run that was resumed, and the seconds that its checkpoint brought."""
    run = tmp_path_factory.mktemp("resumed") / "run"
    kill(command(run, *measured), STEP, 6)  # two points of the curve are in the checkpoint
    state = json.loads((run / "checkpoints" / "checkpoint-4" / "miner.json").read_text())
    assert main(["train", "--resume", "--output", str(run)]) == 0
    return run, state["clock"]


def test_the_curve_of_both_recalls_continues(
    command, measured: list[str], resumed: tuple[Path, dict[str, float]], tmp_path: Path
) -> None:
    assert main(command(tmp_path / "whole", *measured)) == 0
    found, expected = (results(run)["runs"][0] for run in (resumed[0], tmp_path / "whole"))
    assert [point["step"] for point in found["curve"]] == [2, 4, 6]
    assert all("train_recall@10" in point for point in found["curve"])
    assert found["curve"] == expected["curve"]
    assert found["train_metrics"] == expected["train_metrics"]


def test_the_search_of_another_version_is_refused(
    command, kill, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run = tmp_path / "run"
    kill(command(run, "--strategy", "corrected", "--search", "rolling"), STEP, 4)
    (checkpoint,) = (run / "checkpoints").iterdir()
    state = load_file(checkpoint / "miner.safetensors")
    state["search:control"] = state["search:control"][:-1]
    save_file(state, checkpoint / "miner.safetensors")
    seal(checkpoint)
    assert main(["train", "--resume", "--output", str(run)]) == 2
    assert "another version of unstale" in capsys.readouterr().err


def card(run: Path) -> list[str]:
    """Read the model card without its times."""
    text = (run / "model" / "README.md").read_text()
    assert "Training Loss" in text
    return [line for line in text.splitlines() if "seconds" not in line]


@pytest.mark.parametrize(
    ("where", "call"),
    [
        ("unstale.encoders.embed:embed", 1),  # while the corpus is embedded
        (STEP, 1),  # before the first step
        ("unstale.training.checkpoints:seal", 2),  # a checkpoint written, but not sealed
        ("unstale.training.checkpoints:atomic_folder", 2),  # sealed, but not in place
        ("unstale.training.checkpoints:all_checkpoints", 3),  # in place, old ones still there
        ("unstale.training.checkpoints:all_checkpoints", 5),  # in place, and no step left to train
    ],
)
def test_killed_at_an_awkward_moment(
    command, never_killed: Path, kill, tmp_path: Path, where: str, call: int
) -> None:
    run = tmp_path / "run"
    kill(command(run), where, call)
    assert main(["train", "--resume", "--output", str(run)]) == 0
    assert results(run) == results(never_killed)
    assert weights(run) == weights(never_killed)
    if call < 5:  # of a training that had ended the card does not list the settings
        assert card(run) == card(never_killed)
    assert {p.name for p in run.rglob(".*")} <= {LOCK, LIST}  # nothing is left lying about


def test_the_last_good_checkpoints_are_kept_and_a_torn_one_is_skipped(
    command, never_killed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    shutil.copytree(never_killed, run)
    kept = sorted(p.name for p in (run / "checkpoints").iterdir())
    assert kept == ["checkpoint-4", "checkpoint-6"]
    (run / "files.json").unlink()  # as if it had been killed before its end
    torn = run / "checkpoints" / "checkpoint-6" / "optimizer.pt"
    data = bytearray(torn.read_bytes())
    data[len(data) // 2] ^= 1
    torn.write_bytes(data)
    assert main(["train", "--resume", "--output", str(run)]) == 0
    assert "skipping the checkpoint" in caplog.text
    assert "optimizer.pt is damaged" in caplog.text
    assert "resuming from" in caplog.text
    assert "checkpoint-4" in caplog.text
    assert results(run) == results(never_killed)


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Read every file, and when it was last written."""
    files = [f for f in folder.rglob("*") if f.is_file() and f.name != ".lock"]
    return {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in files}


def test_a_finished_run_is_left_as_it_is(
    never_killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(never_killed, run)
    before = contents(run)
    assert main(["train", "--resume", "--output", str(run)]) == 0
    assert "is finished: nothing is left to do" in capsys.readouterr().out
    assert contents(run) == before
    assert main(["train", "--resume", "--output", str(run), "--steps", "9"]) == 2
    assert "with --steps 9: it began with 6" in capsys.readouterr().err
    assert contents(run) == before


def test_a_finished_run_that_lost_its_model_makes_it_again(
    never_killed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    shutil.copytree(never_killed, run)
    before = weights(run)
    shutil.rmtree(run / "model")
    assert main(["train", "--resume", "--output", str(run)]) == 0
    assert "the run was finished, and resumes" in caplog.text
    assert weights(run) == before
    assert "starts again" not in caplog.text
    shutil.rmtree(run / "checkpoints")
    (run / "files.json").unlink()
    assert main(["train", "--resume", "--output", str(run)]) == 0
    assert "no complete checkpoint to resume from: the training starts again" in caplog.text
    assert weights(run) == before


def test_seconds_are_those_of_all_sessions(resumed: tuple[Path, dict[str, float]]) -> None:
    run, earlier = resumed
    assert earlier.keys() == {"embedding", "evaluation", "total"}
    seconds = json.loads((run / "results.json").read_text())["runs"][0]["seconds"]
    assert all(seconds[part] > earlier[part] > 0 for part in earlier)
    parts = ("embedding", "evaluation", "training")
    assert seconds["total"] > sum(seconds[part] for part in parts)


def test_more_checkpoints_are_kept_if_asked(command, tmp_path: Path) -> None:
    flags = ["--keep-checkpoints", "9", "--strategy", "in-batch"]
    assert main(command(tmp_path / "run", *flags)) == 0
    names = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["checkpoint-2", "checkpoint-4", "checkpoint-6"]


def test_a_run_goes_on_from_any_folder(
    command, kill, beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(beir.parent)
    kill(command(tmp_path / "run", "--data", beir.name, "--strategy", "in-batch"), STEP, 4)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--resume", "--output", "run"]) == 0


def test_going_on_with_other_data_is_refused(
    command, kill, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    shutil.copytree(beir, data)
    arguments = command(run, "--data", str(data), "--strategy", "in-batch")
    kill(arguments, STEP, 4)
    lines = (data / "queries.jsonl").read_text().splitlines()
    (data / "queries.jsonl").write_text("\n".join(lines).replace("which river", "what river"))
    assert main(["train", "--resume", "--output", str(run)]) == 2
    assert "queries changed since" in capsys.readouterr().err


def test_going_on_with_another_search_is_refused(
    command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from unstale.search import auto

    run = tmp_path / "run"
    monkeypatch.setattr(auto, "_SMALL", 1.0)  # so few operations that even this corpus has more
    assert main(command(run)) == 0
    assert json.loads((run / "results.json").read_text())["runs"][0]["search"] == "rolling"
    shutil.rmtree(run / "checkpoints" / "checkpoint-6")
    (run / "files.json").unlink()  # as if it had been killed before its end
    monkeypatch.undo()  # now a fresh start would choose exact search
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "cache"))
    assert main(["train", "--resume", "--output", str(run)]) == 2
    assert (
        "search changed since (was rolling float32, is exact float32 now)"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_a_compiled_model_resumes_and_says_that_digits_may_differ(
    command, kill, tmp_path: Path
) -> None:
    run, whole, log = (tmp_path / name for name in ("run", "whole", "log"))
    flags = ["--trainer.torch_compile", "true", "--trainer.torch_compile_backend", "eager"]
    assert kill.run(command(whole, *flags), log) == 0, log.read_text()
    assert "digits may differ" not in log.read_text()
    kill(command(run, *flags), "unstale.training.callbacks:Steps.on_step_end", 5)
    assert kill.run(["train", "--resume", "--output", str(run)], log) == 0, log.read_text()
    assert "--trainer.torch_compile: compiled code depends" in log.read_text()
    found, expected = (results(folder)["runs"][0]["metrics"] for folder in (run, whole))
    assert found == pytest.approx(expected, abs=1e-3)


def test_nothing_that_is_written_needs_pickle_to_be_trusted(never_killed: Path) -> None:
    import torch

    names = {p.name for p in never_killed.rglob("*") if p.is_file()}
    pickled = {n for n in names if n.endswith((".bin", ".pt", ".pth", ".pkl", ".pickle"))}
    assert pickled == {"optimizer.pt", "scheduler.pt", "rng_state.pth"}  # the Trainer's own
    for path in never_killed.rglob("*.pt"):
        torch.load(path, weights_only=True)
