"""The meter, and the paper's claim in small: correction sees what a stale cache loses."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.miners import Corrected, Queries, Stale
from unstale.miners.in_batch import InBatch
from unstale.miners.part import PartOfCorpus
from unstale.search.best import agreement
from unstale.training.meter import Meter


def test_reads_a_fresh_cache_as_fresh_and_a_drifted_one_as_stale(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    tokens = target_tokens(static_model, dataset, progress=False)
    buffer = TargetBuffer([embed_targets(static_model, tokens, np.arange(120))])
    meter = Meter(dataset, dataset.split("train").pairs, tokens, scale=20.0, queries=16, targets=60)
    miner = Corrected(buffer, Corrector(16, (8,)))
    state = torch.get_rng_state()
    first = meter.read(static_model, miner, 0)
    assert first is not None
    assert 20 <= first.encoded <= 60
    assert torch.equal(torch.get_rng_state(), state)
    fresh = first.freshness
    assert fresh.cosine_stale == pytest.approx(1, abs=1e-5)
    assert fresh.kl_stale == pytest.approx(0, abs=1e-5)
    assert fresh.overlap_stale == pytest.approx(1, abs=1e-6)
    assert fresh.overlap_corrected == pytest.approx(1, abs=1e-6)
    with torch.no_grad():
        weight = static_model[0].embedding.weight
        weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    second = meter.read(static_model, miner, 5)
    assert second is not None
    stale = second.freshness
    assert stale.cosine_stale < 0.9
    assert stale.kl_stale > 0.1
    assert stale.overlap_stale < 0.9
    assert stale.cosine_corrected == stale.cosine_stale  # h is still the identity
    assert meter.read(static_model, InBatch(), 5) is None
    only_stale = meter.read(static_model, Stale(buffer), 5)
    assert only_stale is not None
    assert only_stale.freshness.kl_corrected is None
    logs = only_stale.freshness.logs()
    assert "freshness/kl_corrected" not in logs
    # h is still the identity, so that both miners rank and encode the same.
    assert logs["freshness/kl_stale"] == pytest.approx(stale.kl_stale)
    assert logs["freshness/overlap_stale"] == pytest.approx(stale.overlap_stale)


def test_where_the_views_hold_little_it_encodes_three_times_as_many_beside(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    tokens = target_tokens(static_model, dataset, progress=False)
    fresh = embed_targets(static_model, tokens, np.arange(120))
    noise = torch.randn(fresh.shape, generator=torch.Generator().manual_seed(1))
    pairs = dataset.split("train").pairs
    meter = Meter(dataset, pairs, tokens, scale=20.0, queries=2, targets=24)
    encoded = []
    for size in (0.0, 1.0):  # of the drift: from all to hardly any of the true top 10
        reading = meter.read(static_model, Stale(TargetBuffer([fresh + size * noise])), 5)
        assert reading is not None
        encoded.append((reading.encoded, reading.freshness.overlap_stale > 0.6))
    assert encoded == [(24, True), (24 + 3 * 24, False)]


def test_with_targets_enough_it_reads_the_overlap_of_the_whole_corpus(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    tokens = target_tokens(static_model, dataset, progress=False)
    buffer = TargetBuffer([embed_targets(static_model, tokens, np.arange(120))])
    pairs = dataset.split("train").pairs
    meter = Meter(dataset, pairs, tokens, scale=20.0, queries=16, targets=120)
    with torch.no_grad():
        weight = static_model[0].embedding.weight
        weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        miner = Corrected(buffer, Corrector(16, (8,)))
        for layer in miner.network.layers:
            layer.weight.add_(torch.randn(layer.weight.shape))
        reading = meter.read(static_model, miner, 5)
        queries = embed_queries(static_model, meter.texts)
        true = queries @ embed_targets(static_model, tokens, np.arange(120)).T
        view = miner.view(torch.arange(120))
    assert reading is not None
    assert reading.encoded == 120
    found = reading.freshness.overlap_stale, reading.freshness.overlap_corrected
    wanted = [agreement(true.topk(10).indices, (queries @ v.T).topk(10).indices) for v in view[:2]]
    assert found == pytest.approx(wanted)
    assert wanted[0] != wanted[1]


def test_a_part_of_the_corpus_is_read_as_if_it_were_all(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    tokens = target_tokens(static_model, dataset, progress=False)
    part = torch.arange(1, 120, 3)  # 40 of 120
    buffer = TargetBuffer([embed_targets(static_model, tokens, part.numpy())])
    pairs = dataset.split("train").pairs
    meter = Meter(dataset, pairs, tokens, scale=20.0, queries=16, targets=120)
    with torch.no_grad():
        weight = static_model[0].embedding.weight
        weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        reading = meter.read(static_model, PartOfCorpus(Stale(buffer), part), 5)
        queries = embed_queries(static_model, meter.texts)
        true = queries @ embed_targets(static_model, tokens, part.numpy()).T
    assert reading is not None
    assert reading.encoded == 40  # none but those that the miner covers
    cached = (queries @ buffer[torch.arange(40)].T).topk(10).indices
    wanted = agreement(true.topk(10).indices, cached)
    assert reading.freshness.overlap_stale == pytest.approx(wanted)
    assert 0.1 < wanted < 0.9


def test_on_known_drift_the_corrector_lowers_kl_and_mines_more_of_the_true_top_k() -> None:
    torch.manual_seed(0)
    n, d = 2000, 12
    centres = torch.randn(20, d)
    stale = centres[torch.randint(20, (n,))] + 0.4 * torch.randn(n, d)
    drift = Corrector(d, (2 * d,))
    with torch.no_grad():
        drift.layers[1].weight.normal_(std=0.25)
    fresh, queries = drift(stale).detach(), torch.randn(300, d)
    miner = Corrected(TargetBuffer([stale]), Corrector(d, (8 * d,)))
    optimizer = torch.optim.Adam(miner.parameters(), lr=3e-3)

    batch = Queries(queries, torch.arange(300), torch.full((300, 1), -1), 0)

    def kl(cached: torch.Tensor) -> float:
        p, q = (torch.log_softmax(queries @ t.T, dim=1) for t in (fresh, cached))
        return (p.exp() * (p - q)).sum(1).mean().item()

    def seen(other) -> float:
        found, true = other.mine(batch, 20), (queries @ fresh.T).topk(20).indices
        return (true[:, :, None] == found[:, None, :]).any(2).float().mean().item()

    for _ in range(400):
        rows = torch.randperm(n)[:100]
        some = batch._replace(vectors=queries[torch.randperm(300)[:16]])
        optimizer.zero_grad()
        miner.loss(some, fresh[rows], rows, None).backward()
        optimizer.step()
    with torch.no_grad():
        assert kl(miner.network(stale)) < 0.2 * kl(stale)
        assert seen(miner) > seen(Stale(TargetBuffer([stale]))) + 0.2


def test_all_processes_hear_one_reading(
    static_model: SentenceTransformer, dataset: RetrievalDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a miner does with it must not hang on the last bit of one machine."""
    monkeypatch.setattr(
        "unstale.training.meter.exchange", lambda own: [own._replace(encoded=7), own]
    )
    tokens = target_tokens(static_model, dataset, progress=False)
    meter = Meter(dataset, dataset.split("train").pairs, tokens, scale=20.0, queries=4, targets=30)
    buffer = TargetBuffer([embed_targets(static_model, tokens, np.arange(120))])
    reading = meter.read(static_model, Stale(buffer), 0)
    assert reading is not None
    assert reading.encoded == 7  # as the first said
