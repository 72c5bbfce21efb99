"""Numbers that go wrong stop the run, with the step, the batch and a checkpoint to go on from."""

import json
import logging
from pathlib import Path

import pytest
import torch

from unstale.cli.main import main
from unstale.miners import Corrected, Freshness, Schedule
from unstale.miners.corrected import worse_than_stale
from unstale.miners.exhaustive import Refreshed
from unstale.training.checkpoints import all_checkpoints
from unstale.training.trainer import FreshTrainer

SMALL = """--steps 4 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-queries 8
--probe-targets 40 --save-steps 1 --device cpu --layers 1 --towers separate --no-measure-whole"""


@pytest.fixture
def train(beir: Path, bert_folder: Path):
    def run(output: Path, *more: str) -> int:
        where = ["--data", str(beir), "--model", str(bert_folder), "--output", str(output)]
        return main(["train", *where, *SMALL.split(), *more])

    return run


def poison(what: str, trainer: FreshTrainer) -> None:
    """Spoil one thing as the third step begins."""
    if what == "query embeddings":
        tower = trainer.model[0].sub_modules["query"]
        next(tower.parameters()).data.fill_(float("nan"))
    elif what == "fresh embeddings":
        tower = trainer.model[0].sub_modules["document"]
        next(tower.parameters()).data.fill_(float("nan"))
    elif what == "the corrector loss":
        next(trainer.algorithm.miner.parameters()).data.fill_(float("nan"))
    else:  # a gradient
        weight = next(
            (trainer.model if "encoders" in what else trainer.algorithm.miner).parameters()
        )
        weight.register_hook(lambda gradient: gradient + float("inf"))


@pytest.mark.parametrize(
    "what",
    [
        "query embeddings",
        "fresh embeddings",
        "the corrector loss",
        "the encoders' gradient",
        "the corrector's gradient",
    ],
)
def test_nan_stops_the_run_and_says_where(
    train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, what: str
) -> None:
    step = FreshTrainer.training_step

    def stepping(self: FreshTrainer, *args, **kwargs):
        if self.state.global_step == 2:
            poison(what, self)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(FreshTrainer, "training_step", stepping)
    mined = ("--strategy", "corrected")  # from the first step on, so that the corrector trains
    assert train(tmp_path / "run", *mined) == 3
    error = capsys.readouterr().err
    assert f"NaN or infinity in {what} at step 3" in error
    assert "checkpoint-2" in error
    assert "Traceback" not in error
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert failure["step"] == 3
    assert len(failure["query_ids"]) == 8
    assert all(key.startswith("q") for key in failure["query_ids"])
    assert failure["checkpoint"].endswith("checkpoint-2")
    assert bool(failure["target_ids"]) == (what == "fresh embeddings")
    monkeypatch.undo()
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "cache"))
    assert main(["train", "--resume", "--output", str(tmp_path / "run")]) == 0


def reading(kl: float | None, overlap: float | None, step: int = 1) -> Freshness:
    return Freshness(step, 0.9, 0.1, 0.2, kl, 0.8, overlap)


@pytest.mark.parametrize(
    ("kl", "overlap", "worse"),
    [
        (0.1, 0.9, False),
        (0.2, 0.8, False),  # as good as none
        (0.5, 0.9, True),  # by KL
        (0.1, 0.7, True),  # by overlap
        (float("nan"), 0.9, True),
        (None, None, False),  # there is no corrector
    ],
)
def test_a_corrector_is_judged_by_kl_and_overlap_never_by_cosine(kl, overlap, worse: bool) -> None:
    assert worse_than_stale(reading(kl, overlap)) == worse  # its cosine is 0.1 against 0.9


def test_noise_is_borne_while_nothing_has_drifted() -> None:
    assert not worse_than_stale(Freshness(4, 1.0, 1.0, 0.0008, 0.0013, 0.98, 0.97))


@pytest.mark.parametrize("fallback", [True, False])
def test_a_harmful_corrector_is_warned_of_and_left_out(
    fallback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.materials import small_miner
    from tests.miners.test_contract import batch

    made = {"memory": False, "fallback": fallback}
    miner = small_miner("corrected", **made)
    assert isinstance(miner, Corrected)
    with torch.no_grad():
        for weight in miner.parameters():
            weight.normal_(std=3.0)  # a corrector gone wild
    stale = small_miner("stale", **made).mine(batch(), 6)
    wild = miner.mine(batch(), 6)
    assert not torch.equal(wild, stale)
    with caplog.at_level(logging.WARNING):
        miner.observe(reading(9.0, 0.1))
    assert "the corrector does worse than none (KL 9 against 0.2" in caplog.text
    assert torch.equal(miner.mine(batch(), 6), stale if fallback else wild)
    miner.observe(reading(0.1, 0.9))  # it has recovered
    assert torch.equal(miner.mine(batch(), 6), wild)


def test_a_rate_that_diverges_is_warned_of(
    train, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rate = ["--strategy", "in-batch", "--learning-rate", "100", "--no-guard"]
    assert train(tmp_path / "run", *rate) == 0
    assert "encoder got worse" in caplog.text.lower()
    assert "A learning rate of 100 may be too high" in caplog.text


def test_auto_refresh_re_embeds_when_the_reading_is_bad_and_only_once() -> None:
    from unstale.buffer.buffer import TargetBuffer

    fresh = torch.randn(10, 4)
    miner = Refreshed(TargetBuffer([torch.zeros(10, 4)]), Schedule([]), below=0.9)
    miner.observe(Freshness(1, 1.0, None, 0.0, None, 0.95, None))
    assert miner.refresh(1, lambda rows: fresh[rows]).refreshed == 0
    miner.observe(Freshness(2, 1.0, None, 0.0, None, 0.85, None))
    assert miner.refresh(3, lambda rows: fresh[rows]).refreshed == 10
    assert torch.equal(miner.view(torch.arange(10)).stale, fresh)
    assert miner.refresh(4, lambda rows: fresh[rows]).refreshed == 0


def test_auto_refresh_follows_the_drift(train, tmp_path: Path) -> None:
    flags = ["--strategy", "auto-refresh", "--save-steps", "0", "--refresh-below"]
    assert train(tmp_path / "calm", *flags, "0.01") == 0
    assert train(tmp_path / "anxious", *flags, "1", "--learning-rate", "0.05") == 0
    calm, anxious = (
        json.loads((tmp_path / d / "results.json").read_text())["runs"][0]["targets_reembedded"]
        for d in ("calm", "anxious")
    )
    assert calm == 0
    assert anxious >= 120


def test_folders_that_are_only_like_checkpoints(tmp_path: Path) -> None:
    for name in ("checkpoint-3", "checkpoint-\u00b2", "checkpoint-x", "checkpoint-12"):
        (tmp_path / name).mkdir()
    assert [f.name for f in all_checkpoints(tmp_path)] == ["checkpoint-12", "checkpoint-3"]
