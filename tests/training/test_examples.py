"""Examples of mining against brute force on a drifted encoder."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.data.dataset import Positives, RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator
from unstale.miners import Corrected, Stale
from unstale.miners.in_batch import InBatch
from unstale.results import ExampleQuery
from unstale.training import examples
from unstale.training.examples import nearest_examples
from unstale.training.overlap import last_look


def mined_examples(
    model, miner, dataset, tokens, positives, seed=0, **options
) -> list[ExampleQuery]:
    rows = dataset.split("train").query_rows
    evaluator = Evaluator(dataset, "test", tokens, train_rows=rows, progress=False)
    evaluator(model)
    look = last_look(model, miner, evaluator, seed=seed)
    return [] if look is None else nearest_examples(look, dataset, positives, **options)


@pytest.fixture
def drifted(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> tuple[TokenStore, TargetBuffer]:
    """The corpus embedded before the encoder moves."""
    tokens = target_tokens(static_model, dataset, progress=False)
    buffer = TargetBuffer([embed_targets(static_model, tokens, np.arange(120))])
    with torch.no_grad():
        weight = static_model[0].embedding.weight
        weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    return tokens, buffer


def test_lists_agree_with_brute_force(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    drifted: tuple[TokenStore, TargetBuffer],
) -> None:
    tokens, buffer = drifted
    positives = Positives(dataset, ["train"])
    network = Corrector(16, (8,))
    with torch.no_grad():
        network.layers[1].weight.normal_(std=0.5)
    miner = Corrected(buffer, network)
    found = mined_examples(static_model, miner, dataset, tokens, positives, queries=6, k=4)
    assert len(found) == len({e.query for e in found}) == 6
    rows = torch.arange(120)
    fresh = embed_targets(static_model, tokens, rows.numpy())
    views = {"true": fresh, "stale": buffer[rows], "corrected": network(buffer[rows]).detach()}
    missed = 0
    for example in found:
        query = embed_queries(static_model, [example.query])[0]
        label = example.label.row
        # In this world a query's row is the row of its only positive.
        assert dataset.queries[label] == example.query
        others = rows[rows != label]
        place = {
            int(r): i
            for i, r in enumerate(others[(fresh[others] @ query).argsort(descending=True)], 1)
        }
        for view, vectors in views.items():
            best = (vectors[others] @ query).topk(4)
            assert [m.row for m in getattr(example, view)] == others[best.indices].tolist()
            assert [m.score for m in getattr(example, view)] == pytest.approx(
                best.values.tolist(), abs=1e-3
            )
            assert [m.text for m in getattr(example, view)] == dataset.targets.take(
                others[best.indices].numpy()
            )
        for m in (*example.stale, *example.corrected):
            # Evaluation ranks 100, and one of them may be the label.
            assert m.true_rank == (place[m.row] if place[m.row] < 100 else m.true_rank)
            missed += place[m.row] > 4
    assert missed > 0  # the encoder did move
    (whole,) = mined_examples(static_model, miner, dataset, tokens, positives, queries=1, k=119)
    for listed in (whole.true, whole.stale, whole.corrected):  # no deeper than evaluation ranks
        assert len(listed) in (99, 100)
        assert whole.label.row not in [m.row for m in listed]
    assert [m.true_rank for m in whole.true] == list(range(1, len(whole.true) + 1))
    assert None in [m.true_rank for m in whole.stale]


def test_only_caches_are_shown_and_only_their_views(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    drifted: tuple[TokenStore, TargetBuffer],
) -> None:
    tokens, buffer = drifted
    positives = Positives(dataset, ["train"])
    assert mined_examples(static_model, InBatch(), dataset, tokens, positives) == []
    first = mined_examples(static_model, Stale(buffer), dataset, tokens, positives, queries=3)
    assert [len(e.true) for e in first] == [5, 5, 5]
    assert [e.corrected for e in first] == [[], [], []]
    again = mined_examples(static_model, Stale(buffer), dataset, tokens, positives, queries=3)
    assert first == again
    other = mined_examples(static_model, Stale(buffer), dataset, tokens, positives, seed=1)
    assert {e.query for e in other} != {e.query for e in first}


def test_what_was_searched_in_the_stale_view_is_not_called_corrected(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    drifted: tuple[TokenStore, TargetBuffer],
) -> None:
    tokens, buffer = drifted
    positives = Positives(dataset, ["train"])
    miner = Corrected(buffer, Corrector(16, (8,)))
    (one,) = mined_examples(static_model, miner, dataset, tokens, positives, queries=1)
    assert one.corrected
    miner.trusted.fill_(False)  # as when the meter finds the corrector worse than none
    (one,) = mined_examples(static_model, miner, dataset, tokens, positives, queries=1)
    assert one.stale
    assert not one.corrected


def test_texts_are_cut(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    drifted: tuple[TokenStore, TargetBuffer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examples, "TEXT", 9)
    tokens, buffer = drifted
    (one,) = mined_examples(
        static_model, Stale(buffer), dataset, tokens, Positives(dataset, ["train"]), queries=1
    )
    cut = [one.query, one.label.text, *(m.text for m in one.true + one.stale)]
    assert {len(text) for text in cut} == {9}
