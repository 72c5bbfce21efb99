"""mine, evaluate, correct and compare in several processes do what one does."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import write_lines
from tests.test_processes import torchrun

from unstale.cli.main import main

TARGETS, QUERIES = 9000, 1100  # three chunks of targets, three batches of queries


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Targets of random words; a query has some words of its target."""
    folder = tmp_path_factory.mktemp("shared") / "world"
    (folder / "qrels").mkdir(parents=True)
    random = np.random.default_rng(0)
    words = np.array([f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst"])
    texts = words[random.integers(0, len(words), (TARGETS, 6))]
    write_lines(
        folder / "corpus.jsonl",
        [{"_id": f"t{i}", "title": "", "text": " ".join(t)} for i, t in enumerate(texts)],
    )
    write_lines(
        folder / "queries.jsonl",
        [{"_id": f"q{i}", "text": " ".join(texts[i, :3])} for i in range(QUERIES)],
    )
    for split, rows in {"train": range(QUERIES), "test": range(0, QUERIES, 5)}.items():
        lines = ["query-id\tcorpus-id\tscore", *[f"q{i}\tt{i}\t1" for i in rows]]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


COMMANDS = {
    "evaluate": "evaluate --split test",
    "mine": "mine --hard-negatives 3 --relative-margin 0.05 --format beir",
    "correct": "correct --vectors VECTORS --count 300 --re-embed 40 --split test",
    "compare": "compare --strategies in-batch,corrected --seeds 0 --steps 3 --batch-size 8 "
    "--corrector-hidden 16 --probe-queries 8 --probe-targets 40 --trainer.adam_epsilon 1e-3",
}


def results(folder: Path) -> dict:
    """Return all of results.json that is not a time, or of the machine."""
    found = json.loads((folder / "results.json").read_text())
    return _timeless(found)


def _timeless(value):
    if isinstance(value, dict):
        left_out = ("second", "machine", "version", "processes", "verdict", "time")
        return {k: _timeless(v) for k, v in value.items() if not any(w in k for w in left_out)}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("command", "count"),
    [
        *(pytest.param(c, 2, marks=pytest.mark.slow) for c in COMMANDS),
        *(pytest.param(c, 4, marks=pytest.mark.slow) for c in COMMANDS),
    ],
)
def test_several_processes_do_what_one_does(
    world: Path, tmp_path: Path, command: str, count: int
) -> None:
    one, many, old = tmp_path / "one", tmp_path / "many", tmp_path / "old"
    encoder = ["--data", str(world), "--model", "tiny", "--device", "cpu"]
    words = [*COMMANDS[command].replace("VECTORS", str(old)).split(), *encoder]
    if command == "correct":  # vectors of another encoder
        assert main(["embed", *encoder, "--target-prompt", "it: ", "--output", str(old)]) == 0
    assert main([*words, "--output", str(one)]) == 0
    done = torchrun(count, "-m", "unstale.cli.main", *words, "--output", str(many))
    said = [line for line in done.stdout.splitlines() if str(many) in line]
    assert len(said) == len(set(said)) > 0  # one of them prints
    if command == "compare":
        ours, theirs = (results(d)["runs"] for d in (many, one))
        for mine, other in zip(ours, theirs, strict=True):
            assert mine["metrics"] == pytest.approx(other["metrics"], abs=0.02)
            assert mine["initial_metrics"] == other["initial_metrics"]
        return
    if command == "mine":
        ours, theirs = (d / "qrels" / "train.tsv" for d in (many, one))
        assert ours.read_text() == theirs.read_text()
        assert len(ours.read_text().splitlines()) > 3.9 * QUERIES  # a positive and 3 each, nearly
        return
    assert results(many) == results(one)
    written = {"evaluate": "test.run", "correct": "vectors/shard-00001.safetensors"}[command]
    assert (many / written).read_bytes() == (one / written).read_bytes()
