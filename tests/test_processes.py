"""Several processes do what one does: the same gradients, losses, counts and results."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.processes import trace

from unstale.cli.main import main

SCRIPT = str(Path(__file__).with_name("processes.py"))


def torchrun(
    count: int, *command: str, check: bool = True, timeout: int = 250
) -> subprocess.CompletedProcess[str]:
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    words = ["--nproc-per-node", str(count), "--master-port", str(port)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words, *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert not check or done.returncode == 0, done.stderr[-3000:]
    return done


CASES = {
    "staged": {"mine_from": 0.5},
    "staged, a part": {"mine_from": 0.5, "mine_among": 60},
    "corrected": {"strategy": "corrected"},
    "apart": {"strategy": "corrected", "share_candidates": False, "sampling": "gumbel"},
    "exhaustive": {"strategy": "exhaustive"},
    "stochastic": {"strategy": "stochastic", "subset_size": 40},
    "in-batch": {"strategy": "in-batch"},
    "rag": {"rag": True},
    "rag, marginal": {"rag": True, "fusion": "marginal", "strategy": "exhaustive"},
    "rag, none": {"rag": True, "strategy": "none"},
    "rag, in parts": {
        "rag": True,
        "mini_batch_size": 5,
        "patience": 2,
        "reader_lr": 0.0,
        "filters": {"range_min": 1, "max_score": 0.999},
    },
    "rag, put back": {"rag": True, "rambling": True, "reader_lr": 1e-9, "learning_rate": 1e-2},
}


@pytest.mark.parametrize(
    ("case", "count"),
    [
        ("staged", 2),
        pytest.param("corrected", 4, marks=pytest.mark.slow),
        pytest.param("rag", 4, marks=pytest.mark.slow),
        *(pytest.param(c, 2, marks=pytest.mark.slow) for c in CASES if c != "staged"),
    ],
)
def test_several_processes_do_what_one_does(
    beir: Path, bert_folder: Path, tmp_path: Path, case: str, count: int
) -> None:
    torch.set_num_threads(1)
    words = [str(beir), str(bert_folder)]
    trace(tmp_path / "one", *words, 20, **CASES[case])
    many = tmp_path / "many"
    torchrun(count, SCRIPT, str(many), *words, "20", json.dumps(CASES[case]))
    one, several = (load_file(d / "gradients.safetensors") for d in (tmp_path / "one", many))
    assert one.keys() == several.keys()
    # The first step of `staged` does not mine yet.
    assert any("network" in name for name in one) == (
        case in ("corrected", "apart") or ("rag" in case and not {"strategy"} & CASES[case].keys())
    )
    for name, gradient in one.items():
        torch.testing.assert_close(several[name], gradient, atol=1e-5, rtol=0, msg=name)
    ours, theirs = (json.loads((d / "trace.json").read_text()) for d in (many, tmp_path / "one"))
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=1e-3)
    assert len(ours["losses"]) == 20
    for key in ("targets_reembedded", "targets_probed", "targets_embedded"):
        assert ours[key] == theirs[key]
    for mine, other in zip(ours["freshness"][:3], theirs["freshness"][:3], strict=True):
        assert mine == pytest.approx(other, abs=1e-3)  # before rounding has grown
    assert ours["targets_trained"] == pytest.approx(theirs["targets_trained"], rel=0.01)
    assert ours.get("reader_inputs") == theirs.get("reader_inputs")
    for key in ("steps", "reader_step", "retriever_step", "candidates_dropped"):
        assert ours.get(key) == theirs.get(key), key
    assert case != "rag, put back" or ours["retriever_step"] == 0
    seen = "f1" if case == "rag, none" else "recall@100"
    assert ours["metrics"][seen] == pytest.approx(theirs["metrics"][seen], abs=0.1)
    if "rag" not in case:  # the same training queries are measured, whatever the processes
        trained, alone = (found["train_metrics"]["recall@100"] for found in (ours, theirs))
        assert trained == pytest.approx(alone, abs=0.1)


SMALL = """--steps 6 --batch-size 8 --corrector-hidden 24 --probe-queries 8 --probe-targets 40
--layers 1 --towers separate --save-steps 2 --device cpu --trainer.adam_epsilon 1e-3"""
OWN = {
    "train": ["--strategy", "corrected", "--hard-negatives", "2"],
    "rag": ["--k", "2", "--reader-max-length", "48"],
}
STEP = {
    "train": "unstale.training.algorithm1:FreshNegativesLoss.forward",
    "rag": "unstale.rag.algorithm2:RetrieverReaderLoss.forward",
}
_ONE_DIES = """
import os, sys
from tests.kill import _die_at
from unstale.cli.main import main
if os.environ["RANK"] == "1":
    _die_at(os.environ["DIE_AT"], 4)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        pytest.param("train", 2, 1, marks=pytest.mark.slow),
        pytest.param("train", 4, 2, marks=pytest.mark.slow),
        pytest.param("rag", 2, 1, marks=pytest.mark.slow),
    ],
)
def test_a_dead_rank_ends_the_job_which_goes_on_with_another_number_of_ranks(
    beir: Path,
    bert_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    before: int,
    after: int,
) -> None:
    script = tmp_path / "one_dies.py"
    script.write_text(_ONE_DIES)
    monkeypatch.setenv("DIE_AT", STEP[command])
    model = ["--retriever" if command == "rag" else "--model", str(bert_folder)]
    where = ["--data", str(beir), *model, *SMALL.split(), *OWN[command]]
    assert main([command, *where, "--output", str(tmp_path / "whole")]) == 0
    run = ["--output", str(tmp_path / "run")]
    killed = torchrun(before, str(script), command, *where, *run, check=False)
    assert killed.returncode != 0
    assert "another process of this job ended" in killed.stderr
    assert not (tmp_path / "run" / "results.json").exists()
    if after == 1:
        assert main([command, "--resume", *run]) == 0
    else:
        torchrun(after, "-m", "unstale.cli.main", command, "--resume", *run)
    ours, theirs = (
        json.loads((tmp_path / d / "results.json").read_text())["runs"][0] for d in ("run", "whole")
    )
    assert ours["steps"] == 6
    last, expected = ours["freshness"][-1], theirs["freshness"][-1]
    assert last["kl_corrected"] == pytest.approx(expected["kl_corrected"], rel=0.02)
    assert ours["targets_trained"] == pytest.approx(theirs["targets_trained"], rel=0.02)
    saved = load_file(tmp_path / "run" / "checkpoints" / "checkpoint-6" / "miner.safetensors")
    rows = [len(v) for name, v in saved.items() if name.endswith("memory.residual")]
    assert after > 1 or rows == [120]  # whole again


@pytest.mark.slow
def test_a_corpus_embedded_by_two_is_the_same(
    beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    flags = ["embed", "--data", str(beir), "--model", str(bert_folder), "--device", "cpu"]
    flags += ["--shard-rows", "16"]
    assert main([*flags, "--output", str(tmp_path / "one")]) == 0
    torchrun(2, "-m", "unstale.cli.main", *flags, "--output", str(tmp_path / "two"))
    one, two = (sorted((tmp_path / d).glob("shard-*")) for d in ("one", "two"))
    assert len(one) == 8
    assert [f.read_bytes() for f in one] == [f.read_bytes() for f in two]
    assert main(["verify", str(tmp_path / "two")]) == 0


def test_only_training_and_embedding_are_shared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["verify", "anything"]) == 2
    assert "it runs in one process" in capsys.readouterr().err


def test_what_cannot_be_shared_is_refused(
    beir: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unstale.errors import InputError
    from unstale.training import settings

    monkeypatch.setattr(settings, "world", lambda: 3)
    with pytest.raises(InputError, match="a batch of 8 cannot be shared by 3 processes"):
        trace(tmp_path / "run", str(beir), str(bert_folder), 2)
    monkeypatch.setattr(settings, "world", lambda: 2)
    with pytest.raises(InputError, match="dynnibal does not run in several processes"):
        trace(tmp_path / "run", str(beir), str(bert_folder), 2, strategy="dynnibal")
