"""The overlap over the whole corpus, against brute force on a drifted encoder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator
from unstale.miners import Corrected, Miner, Stale
from unstale.miners.in_batch import InBatch
from unstale.results import RunResult
from unstale.training.job import train
from unstale.training.overlap import corpus_overlap, last_look


@pytest.fixture
def drifted(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> tuple[TokenStore, TargetBuffer]:
    """The corpus embedded before the encoder moves."""
    tokens = target_tokens(static_model, dataset, progress=False)
    buffer = TargetBuffer([embed_targets(static_model, tokens, np.arange(120))])
    with torch.no_grad():
        weight = static_model[0].embedding.weight
        weight.add_(0.5 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    return tokens, buffer


def shares(
    model: SentenceTransformer, miner: Miner, dataset: RetrievalDataset, tokens: TokenStore, **more
) -> dict[str, float] | None:
    rows = dataset.split("train").query_rows
    evaluator = Evaluator(dataset, "test", tokens, train_rows=rows, progress=False)
    evaluator(model)
    look = last_look(model, miner, evaluator, **more)
    return None if look is None else corpus_overlap(look)


def top(queries: torch.Tensor, targets: torch.Tensor, k: int) -> list[set[int]]:
    return [set(row.tolist()) for row in (queries @ targets.T).topk(k).indices]


def test_it_is_what_brute_force_counts(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    drifted: tuple[TokenStore, TargetBuffer],
) -> None:
    tokens, buffer = drifted
    network = Corrector(16, (8,))
    with torch.no_grad():
        network.layers[1].weight.normal_(std=0.2)
    miner = Corrected(buffer, network)
    found = shares(static_model, miner, dataset, tokens)  # all 80 and all 20 queries
    assert found is not None
    rows = torch.arange(120)
    fresh = embed_targets(static_model, tokens, rows.numpy())
    view = miner.view(rows)
    views = {"stale": view.stale, "searched": view.corrected.detach()}
    for prefix, split in (("", "train"), ("eval_", "test")):
        texts = dataset.queries.take(dataset.split(split).query_rows)
        queries = embed_queries(static_model, texts)
        true = top(queries, fresh, 10)
        for name, vectors in views.items():
            held = [len(a & b) / 10 for a, b in zip(true, top(queries, vectors, 10), strict=True)]
            assert found[prefix + name] == pytest.approx(np.mean(held), abs=1e-6)
            assert 0.1 < found[prefix + name] < 0.99  # there is something to be wrong about
    assert found["stale"] != found["searched"]


def test_what_is_searched_is_what_counts(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    drifted: tuple[TokenStore, TargetBuffer],
) -> None:
    tokens, buffer = drifted
    assert shares(static_model, InBatch(), dataset, tokens) is None
    plain = shares(static_model, Stale(buffer), dataset, tokens, queries=6)
    assert plain is not None
    assert plain["stale"] == plain["searched"]
    network = Corrector(16, (8,))
    with torch.no_grad():
        network.layers[1].weight.normal_(std=0.5)
    miner = Corrected(buffer, network)
    miner.trusted.fill_(False)  # as when the meter finds the corrector worse than none
    assert shares(static_model, miner, dataset, tokens, queries=6) == plain
    other = shares(static_model, Stale(buffer), dataset, tokens, queries=6, seed=1)
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
    small = {"steps": 2, "batch_size": 8, "probe_targets": 40, "progress": False}
    some = {split: own for split, own in dataset.qrels.items() if split != "dev"}  # no looks at it
    without = replace(dataset, qrels=some)
    result = train(without, static_model, tmp_path, strategy="corrected", search="exact", **small)
    assert result.overlap
    assert result.examples
    assert len(scans) == len(result.freshness) + 1  # a reading of the meter is one
