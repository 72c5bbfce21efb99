"""Where `report_to` writes, each logger shows both losses, the freshness and what filters drop."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from unstale.miners import Filters

NAMES = {"task_loss", "corrector_loss", "freshness/overlap_corrected", "dropped/max_score"}
SHOWN = {f"train/{name}" for name in NAMES}


@pytest.fixture
def trained(bert_model, stock):
    """Train with a logger; a few candidates are above the score."""

    def train(name: str, **arguments) -> None:
        options = {"filters": Filters(max_score=0.9)}
        _, trainer = stock(
            bert_model, options=options, report_to=name, logging_steps=1, **arguments
        )
        trainer.train()

    return train


def test_tensorboard(trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "logs"))
    trained("tensorboard")
    (folder,) = {file.parent for file in (tmp_path / "logs").rglob("events.*")}
    events = EventAccumulator(str(folder))
    events.Reload()
    assert set(events.Tags()["scalars"]) >= SHOWN


@pytest.mark.filterwarnings("ignore")  # wandb's own
def test_wandb_offline(trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    trained("wandb")
    try:
        assert set(dict(wandb.run.summary)) >= SHOWN
    finally:
        wandb.finish()
    assert list(tmp_path.rglob("offline-run-*/*.wandb"))


@pytest.mark.filterwarnings("ignore")  # trackio's own
def test_trackio_offline(trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # it is read once, on import
    trackio = pytest.importorskip("trackio", reason="trackio is not installed: pip install trackio")
    trained("trackio", project="fresh", run_name="first")
    assert [run.name for run in trackio.Api().runs("fresh")] == ["first"]
    logs = trackio.sqlite_storage.SQLiteStorage.get_logs("fresh", "first")
    assert {name for row in logs for name in row} >= SHOWN
    assert list((tmp_path / "trackio").glob("*.db"))
