"""A run of Algorithm 2 that is killed, and resumed, ends bit for bit as one that never was."""

import json
from pathlib import Path

import pytest
from tests.kill import Killer, results, weights

from unstale.cli.main import main

FLAGS = """--steps 10 --batch-size 8 --k 3 --corrector-hidden 24 --probe-targets 40
--learning-rate 1e-3 --layers 1 --towers separate --save-steps 3 --mini-batch-size 5 --patience 4
--range-min 1 --max-score 0.99 --eval-questions 20 --reader-max-length 40 --device cpu"""
CASES = {
    "a step": ("unstale.rag.algorithm2:RetrieverReaderLoss.forward", 8, []),
    "a look at dev": ("unstale.rag.evaluator:RagEvaluator.look", 3, []),
    "the end": ("unstale.rag.job:_save_reader", 1, ["--reader-lr", "0"]),
    "accumulated": (
        "unstale.rag.algorithm2:RetrieverReaderLoss.forward",
        15,
        ["--trainer.gradient_accumulation_steps", "2", "--fusion", "fid"],
    ),
}


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_killed_and_resumed(
    kill: Killer, beir: Path, bert_folder: Path, tmp_path: Path, case: str
) -> None:
    (where, call, more), whole, run = CASES[case], tmp_path / "whole", tmp_path / "run"
    words = ["rag", "--data", str(beir), "--retriever", str(bert_folder), *FLAGS.split(), *more]
    assert main([*words, "--output", str(whole)]) == 0
    kill([*words, "--output", str(run)], where, call)
    assert not (run / "results.json").exists()
    assert main(["rag", "--resume", "--output", str(run)]) == 0
    assert results(run) == results(whole)
    assert weights(run) == weights(whole)
    assert {p.parts[0] for p in map(Path, weights(run))} >= {"model", "reader"}
    assert (run / "answers.json").read_bytes() == (whole / "answers.json").read_bytes()
    assert main(["verify", str(run)]) == 0
    done = run / "results.json"
    chosen = json.loads(done.read_text())
    chosen["runs"][0]["reader_step"] += 1  # which look was kept
    done.write_text(json.dumps(chosen))
    assert main(["verify", str(run)]) == 2
