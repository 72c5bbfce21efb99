"""Thirty kills at random moments: whatever was under way goes on, and ends as if nothing happened.

The moment is a random time after the start, so that it falls into reading, embedding, steps,
checkpoints, evaluation or the writing of results. A run that ends before its death is compared with
one that nobody disturbed, and another is begun.
"""

import random
import time
from pathlib import Path

import pytest
from tests.kill import Killer, results, weights

from unstale.cli.main import main

KILLS = 30
TRAIN = """--steps 12 --batch-size 8 --corrector-hidden 24 --probe-queries 8 --probe-targets 40
--save-steps 2 --device cpu --layers 1""".split()
COMMANDS = {
    "embed": ["embed", "--shard-rows", "2", "--tokens-per-batch", "32", "--device", "cpu"],
    "train": ["train", *TRAIN, "--hard-negatives", "2"],
    "rolling": ["train", *TRAIN, "--hard-negatives", "2", "--search", "rolling"],
    "compare": [
        *["compare", *TRAIN, "--hard-negatives", "2", "--seeds", "0"],
        *["--strategies", "stale,corrected,exhaustive", "--refreshes", "4"],
    ],
    "rag": ["rag", *TRAIN, "--k", "2", "--reader-max-length", "48", "--answer-length", "8"],
}
NEVER = 3600.0


def same(run: Path, whole: Path) -> None:
    """Compare all that two runs left, but for the times."""
    ours, theirs = (sorted(d.glob("shard-*")) for d in (run, whole))
    assert [f.read_bytes() for f in ours] == [f.read_bytes() for f in theirs]
    if ours:
        return
    assert results(run) == results(whole)
    folders = [f.parent.relative_to(whole) for f in whole.rglob("model")]
    assert folders
    assert all(weights(whole / f) for f in folders)
    assert all(weights(run / f) == weights(whole / f) for f in folders)


def timed(kill: Killer, arguments: list[str]) -> float:
    began = time.monotonic()
    assert not kill.after(arguments, NEVER)
    return time.monotonic() - began


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", list(COMMANDS))
def test_killed_at_random_and_resumed(
    name: str, kill: Killer, beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    command, *flags = COMMANDS[name]
    model = ["--retriever" if command == "rag" else "--model", str(bert_folder)]
    given = [command, "--data", str(beir), *model, *flags, "--output"]
    whole = tmp_path / "whole"
    seconds = timed(kill, [*given, str(whole)])
    rng, kills, attempt = random.Random(name), 0, 0
    while kills < KILLS // len(COMMANDS):
        run, done = tmp_path / f"run-{attempt}", False
        attempt += 1
        while not done:
            begun = (run / "config.yaml").exists()
            arguments = [command, "--resume", "--output"] if begun else given
            moment = rng.uniform(0, seconds) if kills < KILLS // len(COMMANDS) else NEVER
            began = time.monotonic()
            done = not kill.after([*arguments, str(run)], moment)
            kills += not done
            if done and not begun:  # the first of all had more to do, such as tokenising
                seconds = time.monotonic() - began
        same(run, whole)
        assert main(["verify", str(run)]) == 0
