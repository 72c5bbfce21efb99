"""The overlap over the whole corpus, against brute force on a drifted encoder."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tests.training.conftest import Drifted

from unstale.corrector.network import Corrector
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.miners import Corrected, Miner, Stale
from unstale.miners.in_batch import InBatch
from unstale.results import RunResult
from unstale.training.job import train
from unstale.training.overlap import corpus_overlap


def shares(drifted: Drifted, miner: Miner, **more: int) -> dict[str, float] | None:
    look = drifted.look(miner, **more)
    return None if look is None else corpus_overlap(look)


def top(queries: torch.Tensor, targets: torch.Tensor, k: int) -> list[set[int]]:
    return [set(row.tolist()) for row in (queries @ targets.T).topk(k).indices]


def test_it_is_what_brute_force_counts(drifted: Drifted) -> None:
    dataset = drifted.dataset
    network = Corrector(16, (8,))
    with torch.no_grad():
        network.layers[1].weight.normal_(std=0.2)
    miner = Corrected(drifted.buffer, network)
    found = shares(drifted, miner)  # all 80 and all 20 queries
    assert found is not None
    view = miner.view(torch.arange(120))
    views = {"stale": view.stale, "searched": view.corrected.detach()}
    for prefix, split in (("", "train"), ("eval_", "test")):
        texts = dataset.queries.take(dataset.split(split).query_rows)
        queries = embed_queries(drifted.model, texts)
        true = top(queries, drifted.fresh, 10)
        for name, vectors in views.items():
            held = [len(a & b) / 10 for a, b in zip(true, top(queries, vectors, 10), strict=True)]
            assert found[prefix + name] == pytest.approx(np.mean(held), abs=1e-6)
            assert 0.1 < found[prefix + name] < 0.99  # there is something to be wrong about
    assert found["stale"] != found["searched"]


def test_what_is_searched_is_what_counts(drifted: Drifted) -> None:
    assert shares(drifted, InBatch()) is None
    plain = shares(drifted, Stale(drifted.buffer), queries=6)
    assert plain is not None
    assert plain["stale"] == plain["searched"]
    network = Corrector(16, (8,))
    with torch.no_grad():
        network.layers[1].weight.normal_(std=0.5)
    miner = Corrected(drifted.buffer, network)
    miner.trusted.fill_(False)  # as when the meter finds the corrector worse than none
    assert shares(drifted, miner, queries=6) == plain
    other = shares(drifted, Stale(drifted.buffer), queries=6, seed=1)
    assert other != plain


def test_a_run_records_it(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    small = {"steps": 2, "batch_size": 8, "probe_targets": 40, "progress": False}
    refreshed = train(
        dataset, static_model, tmp_path / "a", strategy="exhaustive", refreshes=2, **small
    )
    keys = {"stale", "searched", "eval_stale", "eval_searched"}
    assert refreshed.overlap == dict.fromkeys(keys, 1.0)  # the last refresh is after the last step
    again = RunResult.from_json(refreshed.to_json(), "here")
    assert again.overlap == refreshed.overlap
    alone = train(dataset, static_model, tmp_path / "b", strategy="in-batch", **small)
    assert alone.overlap is None


def test_a_run_ends_with_one_scan(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scans, whole = [], Stale.ranked

    def counted(self: Stale, *args, **more):
        scans.append(args)
        return whole(self, *args, **more)

    monkeypatch.setattr(Stale, "ranked", counted)
    small = {"steps": 2, "batch_size": 8, "probe_targets": 40, "progress": False, "guard": False}
    result = train(dataset, static_model, tmp_path, strategy="corrected", search="exact", **small)
    assert result.overlap
    assert result.examples
    assert len(scans) == len(result.freshness) + 1  # a reading of the meter is one
