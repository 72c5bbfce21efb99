"""The edges: odd numbers, signals, full disks. Each ends in one line, with the right status."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unstale.cli import evaluate
from unstale.cli.main import COMMANDS, main
from unstale.cli.signals import Terminated
from unstale.data.formats.beir import read_beir
from unstale.declare import check_bounds, parse_seeds
from unstale.errors import InputError, RunError
from unstale.files import one_error
from unstale.training.failure import warn_of_harm
from unstale.training.settings import TrainSettings


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("train --learning-rate -1", "--learning-rate must be at least 0"),
        ("train --learning-rate .nan", "--learning-rate must be a finite number"),
        ("rag --learning-rate .inf", "--learning-rate must be a finite number"),
        ("train --corrector-lr -0.1", "--corrector-lr must be at least 0"),
        ("train --seed -1", "--seed must be at least 0"),
        ("train --seed 4294967296", "--seed must be at most 4294967295"),
        ("demo --seed -1", "--seed must be at least 0"),
        ("doctor --seed -1", "--seed must be at least 0"),
        ("correct --seed -1", "--seed must be at least 0"),
    ],
)
def test_a_number_that_cannot_be_is_refused(
    flags: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*flags.split(), "--output", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_every_seed_has_its_bounds() -> None:
    for kind in [*COMMANDS.values(), TrainSettings]:
        for field in (f for f in kind.__dataclass_fields__.values() if f.name == "seed"):
            assert field.metadata["least"] == 0, kind
            assert field.metadata["most"] == 2**32 - 1, kind
    with pytest.raises(InputError, match="finite"):
        check_bounds(TrainSettings(learning_rate=float("inf")))


@pytest.mark.parametrize("text", ["\u00b2", "1,01", "-1", "4294967296", "", "1,,2", "x"])
def test_seeds_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="different whole numbers"):
        parse_seeds(text)


@pytest.mark.parametrize("grade", [2**31, 2**32, 2**32 + 1, 2**63, -(2**31) - 1])
def test_a_grade_that_wraps_around_is_refused(grade: int, tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "t", "text": "x"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "x"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text(f"q\tt\t{grade}\n")
    with pytest.raises(InputError, match=r"test\.tsv:1: a grade is a whole number below 2\^31"):
        read_beir(tmp_path, progress=False)


def test_a_run_that_destroyed_its_encoder_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_harm({"ndcg@10": 0.5, "recall@1": 0.3}, {"ndcg@10": 0.5, "recall@1": 0.3}, 2e-5, {})
    assert not caplog.text
    warn_of_harm({"ndcg@10": 0.9}, {"ndcg@10": 0.1}, 10.0, {})
    assert "THE ENCODER GOT WORSE: ndcg@10 was 0.900 before training and is 0.100" in caplog.text
    assert "learning rate of 10 may be too high" in caplog.text


def test_a_run_that_memorised_its_pairs_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    before, after = {"ndcg@10": 0.7, "recall@1": 0.6}, {"ndcg@10": 0.7, "recall@1": 0.5}
    warn_of_harm(before, after, 1e-3, {"recall@1": 1.0})
    assert "the encoder got worse: recall@1 was 0.600 before training and is 0.500" in caplog.text
    assert "It finds 100% of its training pairs first: it memorises them" in caplog.text


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(28, "No space left on device"), 3, "stopped: [Errno 28]"),
        (OSError(122, "Disk quota exceeded"), 3, "stopped: [Errno 122]"),
        (FileNotFoundError(2, "No such file"), 2, "error: [Errno 2]"),
        (RunError("cannot write x"), 3, "stopped: cannot write x"),
        (Terminated(), 143, "terminated"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_the_status_says_whose_fault_it_is(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(chosen: object) -> None:
        raise error

    monkeypatch.setattr(evaluate, "run", fail)
    assert main(["evaluate", "--output", "x"]) == code
    assert capsys.readouterr().err == f"unstale evaluate: {said}\n" or said.startswith(
        ("stopped: [", "error: [")
    )


def test_a_writer_of_a_library_that_fails_is_a_run_that_stopped(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot write"), one_error(tmp_path / "x"):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos")


def test_an_interrupted_run_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from unstale.cli import train

    def stop(chosen: object) -> None:
        (tmp_path / "config.yaml").touch()
        raise Terminated

    monkeypatch.setattr(train, "run", stop)
    assert main(["train", "--output", str(tmp_path)]) == 143
    assert f"; --resume --output {tmp_path} continues it" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_program_loads_is_one_line(number: int, tmp_path: Path) -> None:
    # It is sent as soon as the program has said that it runs.
    code = "import os, sys; os.write(1, b'.'); from unstale.__main__ import main; sys.exit(main())"
    words = [sys.executable, "-X", "importtime", "-c", code, "verify", str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, env=os.environ | {"PYTHONUNBUFFERED": "1"}) as program:
        assert program.stderr is not None
        for line in program.stderr:  # until the package itself begins to load
            if b"jsonargparse" in line:
                break
        program.send_signal(number)
        left = program.stderr.read()
        assert program.wait(30) == 128 + number
    assert b"Traceback" not in left
    assert b"unstale: interrupted" in left


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_flags_are_parsed_is_one_line(number: int, tmp_path: Path) -> None:
    code = f"""
import os, sys
import unstale.cli.main as commands
from unstale.__main__ import main
commands.parse = lambda words: os.kill(os.getpid(), {int(number)})
sys.exit(main())
"""
    words = [sys.executable, "-c", code, "verify", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + number, "unstale: interrupted\n")


def test_a_termination_that_python_drops_is_raised_again() -> None:
    """In a `__del__` it is only printed. While it is obeyed, a slow clean-up is not disturbed."""
    code = """
import os, signal, sys, time
from unstale.cli.signals import Terminated, obey_signals
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)
obey_signals()
try:
    made = Dropped()
    del made
    for _ in range(1000):
        time.sleep(0.01)
    print("not terminated")
except Terminated:
    for _ in range(120):
        time.sleep(0.01)
    print("cleaned up")
"""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Exception ignored" in done.stderr
    assert done.stdout == "cleaned up\n"


@pytest.mark.slow
def test_a_terminated_mine_leaves_no_scratch(beir: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "unstale", "mine", "--data", str(beir), "--hard-negatives", "2"]
    with subprocess.Popen(
        [*words, "--output", str(tmp_path / "mined")], stderr=subprocess.PIPE, text=True
    ) as program:
        while program.poll() is None and not list(tmp_path.iterdir()):
            time.sleep(0.001)
        program.send_signal(signal.SIGTERM)
        assert program.stderr is not None
        said = program.stderr.read()
    if program.returncode:  # it may have been faster
        assert program.returncode == 143
        assert "unstale mine: terminated" in said
        assert not list(tmp_path.iterdir())
