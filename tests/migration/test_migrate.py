"""The public call: what it refuses, and that an interrupted migration is resumed."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from unstale import MigrateSettings, migrate
from unstale.cli.options import EncoderFlags, OutputFlags
from unstale.cli.options_inspect import CorrectFlags
from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError


@pytest.fixture
def old(static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path) -> Path:
    np.save(tmp_path / "old.npy", static_model.encode_document(list(dataset.targets)))
    return tmp_path / "old.npy"


def test_an_output_in_use_is_refused_and_a_migration_resumed(
    old: Path, dataset: RetrievalDataset, static_model: SentenceTransformer, tmp_path: Path
) -> None:
    settings = MigrateSettings(count=80, method="linear")
    whole = migrate(old, dataset, static_model, tmp_path / "new", settings)
    assert whole.path == tmp_path / "new" / "vectors.npy"
    assert whole.results["cost"]["targets_embedded"] == 80
    assert whole.validation["cosine"].value > 0.9  # the encoder is the same
    with pytest.raises(InputError, match="new is not empty"):
        migrate(old, dataset, static_model, tmp_path / "new", settings)
    before = whole.path.read_bytes()
    whole.path.unlink()  # as if killed after the embedding
    again = migrate(old, dataset, static_model, tmp_path / "new", settings, resume=True)
    assert again.path.read_bytes() == before
    assert (
        again.results["cost"]["seconds"]["embedding"]
        == (whole.results["cost"]["seconds"]["embedding"])
    )  # nothing was embedded again


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("method", "all", "--method must be one of auto, linear, got 'all'"),
        ("count", 30, "a sample of 30 of 120 targets is too small"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(
    old: Path, dataset: RetrievalDataset, static_model, tmp_path: Path, name, value, message: str
) -> None:
    settings = MigrateSettings()
    object.__setattr__(settings, name, value)  # types are checked only when tests run
    with pytest.raises(InputError, match=message):
        migrate(old, dataset, static_model, tmp_path / "new", settings)
    assert not (tmp_path / "new").exists()


def test_the_command_adds_only_where_things_come_from() -> None:
    def names(kind: type) -> set[str]:
        return {field.name for field in fields(kind)}

    added = names(CorrectFlags) - names(MigrateSettings) - names(OutputFlags) - names(EncoderFlags)
    assert added == {"vectors", "data", "old_model", "ids", "swap", "shard", "resume"}
