"""Which queries choose targets, and which judge."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unstale.cli.main import main
from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.data.formats.beir import read_beir
from unstale.encoders.load import load_encoder
from unstale.migration.adapter import QueryAdapter
from unstale.migration.embed import PICKED, read_picked
from unstale.migration.queries import logged, part_queries
from unstale.migration.settings import MigrateSettings

SETTINGS = MigrateSettings(re_embed=5.0)


def judged(*queries: int) -> Qrels:
    rows = np.array(queries)
    return Qrels(rows, rows % 3, np.ones_like(rows))


@pytest.fixture
def dataset() -> RetrievalDataset:
    names = Texts.of([str(i) for i in range(12)])
    splits = {"test": judged(0, 1, 2, 3), "dev": judged(4, 5, 6)}
    return RetrievalDataset("made up", names, names, names, names, splits)


def test_queries_without_qrels_are_the_log_that_guides(dataset) -> None:
    log = logged(dataset)
    assert log.tolist() == [7, 8, 9, 10, 11]
    parted = part_queries(SETTINGS, dataset, log)
    assert (parted.guide.tolist(), parted.check.tolist()) == (log.tolist(), [0, 1, 2, 3])
    few = part_queries(MigrateSettings(re_embed=5.0, queries=3), dataset, log)
    assert len(few.guide) == len(few.check) == 3
    assert not len(part_queries(MigrateSettings(), dataset, log).guide)  # nothing to choose


def test_without_a_log_other_splits_guide_and_then_half_of_the_queries(dataset) -> None:
    none = np.arange(0)
    assert part_queries(SETTINGS, dataset, none).guide.tolist() == [4, 5, 6]
    alone = replace(dataset, qrels={"test": judged(*range(12))})
    assert not len(logged(alone))
    parted = part_queries(SETTINGS, alone, none)
    assert sorted([*parted.guide, *parted.check]) == list(range(12))
    bare = replace(dataset, qrels={})
    assert not len(logged(bare))  # all of them judge or guide
    assert len(part_queries(SETTINGS, bare, none).guide) == 6


def test_the_command_embeds_what_logged_queries_find(
    beir: Path, bert_folder: Path, tmp_path: Path, monkeypatch
) -> None:
    """The adapter is fitted to what the log chose, and holds it."""
    monkeypatch.setattr("unstale.migration.fusion.KEPT", 24)  # of 90
    dataset = read_beir(beir)
    queries = (beir / "queries.jsonl").read_text()
    own = dataset.targets[7]  # the text of a target, asked many times
    more = [json.dumps({"_id": f"log-{i}", "text": own}) + "\n" for i in range(20)]
    data = tmp_path / "data"
    data.mkdir()
    (data / "queries.jsonl").write_text(queries + "".join(more))
    for name in ("corpus.jsonl", "qrels"):
        (data / name).symlink_to(beir / name)
    np.save(tmp_path / "old.npy", load_encoder("tiny").encode_document(list(dataset.targets)))
    words = ["correct", "--vectors", str(tmp_path / "old.npy"), "--data", str(data)]
    words += ["--model", str(bert_folder), "--old-model", "tiny", "--method", "linear"]
    words += ["--way", "query-side", "--output", str(tmp_path / "new"), "--count", "80"]
    assert main([*words, "--re-embed", "10"]) == 0
    found = json.loads((tmp_path / "new" / "results.json").read_text())
    assert found["queries"]["guide"] == 20
    adapter = QueryAdapter.load(tmp_path / "new" / "adapter")
    assert adapter.about["targets"] == 90
    rows = read_picked(tmp_path / "new" / "embedded" / "re-embedded" / PICKED, 120).rows
    chosen = np.load(tmp_path / "old.npy")[rows]
    assert len(chosen) == 10
    assert {row.tobytes() for row in chosen} <= {row.tobytes() for row in adapter.stale}
