"""Thirty kills at random moments: whatever was under way goes on, and ends as if nothing happened.

The moment is a random time after the start, so that it falls into imports, embedding, steps,
checkpoints, evaluation or the writing of results. A command that is faster than its death counts as
finished, and another moment is drawn.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.kill import results, weights

SMALL = """--steps 30 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-queries 8
--probe-targets 40 --save-steps 3 --device cpu"""
KILLS = 30
COMMANDS = {
    "embed": ["embed", "--shard-rows", "8", "--tokens-per-batch", "64", "--device", "cpu"],
    "train": ["train", *SMALL.split()],
    "rolling": ["train", *SMALL.split(), "--search", "rolling"],
    "compare": [
        *["compare", *SMALL.split(), "--steps", "12", "--seeds", "0"],
        *["--strategies", "stale,corrected,exhaustive", "--refresh", "4"],
    ],
}


def start(arguments: list[str], errors: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    code = "import sys; from unstale.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdout=quiet, stderr=errors)


def finish(arguments: list[str]) -> float:
    began = time.monotonic()
    process = start(arguments, subprocess.PIPE)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()[-2000:]
    return time.monotonic() - began


@pytest.mark.slow
@pytest.mark.timeout(2300)
@pytest.mark.parametrize("name", list(COMMANDS))
def test_killed_at_random_and_resumed(name: str, beir: Path, tmp_path: Path) -> None:
    command, *flags = COMMANDS[name]
    given = [command, "--data", str(beir), *flags, "--output"]
    whole, run = tmp_path / "whole", tmp_path / "run"
    seconds = finish([*given, str(whole)])
    rng, kills = random.Random(name), 0
    arguments = [*given, str(run)]
    while kills < KILLS // len(COMMANDS) + 1:
        process = start(arguments)
        try:
            process.wait(rng.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        assert process.wait() in (0, -signal.SIGKILL)
        if (run / "config.yaml").exists():
            arguments = [command, "--resume", "--output", str(run)]
    finish(arguments)
    if command == "embed":
        ours, theirs = (sorted(d.glob("shard-*")) for d in (run, whole))
        assert [f.read_bytes() for f in ours] == [f.read_bytes() for f in theirs]
    else:
        assert results(run) == results(whole)
        folders = [f.parent.relative_to(whole) for f in whole.rglob("model")]
        assert folders
        assert all(weights(run / f) == weights(whole / f) for f in folders)
    assert finish(["verify", str(run)])
