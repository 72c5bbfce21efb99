"""What was chosen and embedded before a kill is taken as it is."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import read_manifest, write_manifest
from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError
from unstale.migration.embed import Stages
from unstale.migration.sample import Picked


def test_a_stage_is_chosen_and_embedded_once(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    embed = Stages(static_model, dataset, tmp_path)
    first = embed("sample", lambda: Picked(np.array([3, 50, 7]), np.array([7])))
    expected = static_model.encode_document(dataset.targets.take([3, 50, 7]))
    np.testing.assert_allclose(first.fresh.numpy(), expected, atol=1e-6)

    def never() -> Picked:
        raise AssertionError("chosen twice")

    again = embed("sample", never)
    assert again.picked.rows.tolist() == [3, 50, 7]
    assert again.picked.apart.tolist() == [7]
    assert (again.fresh == first.fresh).all()
    assert again.seconds == first.seconds > 0


def test_seconds_after_a_kill_are_those_of_all_targets(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unstale.migration.embed.SHARD_ROWS", 1)
    embed, folder = Stages(static_model, dataset, tmp_path), tmp_path / "sample"
    first = embed("sample", lambda: Picked(np.arange(64), np.arange(0)))
    manifest = read_manifest(folder / "vectors")
    last = manifest["shards"][-1]  # as if killed before the last target
    del last["sha256"]
    (folder / "vectors" / last["file"]).unlink()
    write_manifest(folder / "vectors", manifest)
    (folder / "clock.json").unlink()
    again = embed("sample", lambda: Picked(np.arange(64), np.arange(0)))
    assert (again.fresh == first.fresh).all()
    assert first.seconds / 8 < again.seconds  # 64 times one target, not one target


def test_a_damaged_stage_is_named(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    embed = Stages(static_model, dataset, tmp_path)

    def again() -> None:
        embed("sample", lambda: Picked(np.array([3, 50]), np.array([3])))

    again()
    clock, picked = (tmp_path / "sample" / n for n in ("clock.json", "picked.safetensors"))
    for text in ("{}", "[", '{"seconds": "x"}'):
        clock.write_text(text)
        with pytest.raises(InputError, match=r"clock\.json"):
            again()
    clock.unlink()
    good = picked.read_bytes()
    others = [{"rows": np.array([3])}, {"rows": np.array([3, 500]), "apart": np.array([3])}]
    spoilt = [good[:-9], b"", *map(save, others), save({"rows": np.ones(2), "apart": np.ones(2)})]
    for data in spoilt:
        picked.write_bytes(data)
        with pytest.raises(InputError, match=r"picked\.safetensors"):
            again()
    picked.write_bytes(good)
    again()
