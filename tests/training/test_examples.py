"""Examples of mining against brute force on a drifted encoder."""

import pytest
import torch
from tests.training.conftest import Drifted

from unstale.corrector.network import Corrector
from unstale.data.dataset import Positives
from unstale.encoders.embed import embed_queries
from unstale.miners import Corrected, Miner, Stale
from unstale.miners.in_batch import InBatch
from unstale.results import ExampleQuery
from unstale.training import examples
from unstale.training.examples import nearest_examples


def mined_examples(
    drifted: Drifted, miner: Miner, seed: int = 0, **options: int
) -> list[ExampleQuery]:
    positives, look = Positives(drifted.dataset, ["train"]), drifted.look(miner, seed=seed)
    return [] if look is None else nearest_examples(look, drifted.dataset, positives, **options)


def test_lists_agree_with_brute_force(drifted: Drifted) -> None:
    dataset, buffer, fresh = drifted.dataset, drifted.buffer, drifted.fresh
    network = Corrector(16, (8,))
    with torch.no_grad():
        network.layers[1].weight.normal_(std=0.5)
    miner = Corrected(buffer, network)
    found = mined_examples(drifted, miner, queries=6, k=4)
    assert len(found) == len({e.query for e in found}) == 6
    rows = torch.arange(120)
    views = {"true": fresh, "stale": buffer[rows], "corrected": network(buffer[rows]).detach()}
    missed = 0
    for example in found:
        query = embed_queries(drifted.model, [example.query])[0]
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
    (whole,) = mined_examples(drifted, miner, queries=1, k=119)
    for listed in (whole.true, whole.stale, whole.corrected):  # no deeper than evaluation ranks
        assert len(listed) in (99, 100)
        assert whole.label.row not in [m.row for m in listed]
    assert [m.true_rank for m in whole.true] == list(range(1, len(whole.true) + 1))
    assert None in [m.true_rank for m in whole.stale]


def test_only_caches_are_shown_and_only_their_views(drifted: Drifted) -> None:
    buffer = drifted.buffer
    assert mined_examples(drifted, InBatch()) == []
    first = mined_examples(drifted, Stale(buffer), queries=3)
    assert [len(e.true) for e in first] == [5, 5, 5]
    assert [e.corrected for e in first] == [[], [], []]
    again = mined_examples(drifted, Stale(buffer), queries=3)
    assert first == again
    other = mined_examples(drifted, Stale(buffer), seed=1)
    assert {e.query for e in other} != {e.query for e in first}


def test_what_was_searched_in_the_stale_view_is_not_called_corrected(drifted: Drifted) -> None:
    buffer = drifted.buffer
    miner = Corrected(buffer, Corrector(16, (8,)))
    (one,) = mined_examples(drifted, miner, queries=1)
    assert one.corrected
    miner.trusted.fill_(False)  # as when the meter finds the corrector worse than none
    (one,) = mined_examples(drifted, miner, queries=1)
    assert one.stale
    assert not one.corrected


def test_texts_are_cut(drifted: Drifted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "TEXT", 9)
    (one,) = mined_examples(drifted, Stale(drifted.buffer), queries=1)
    cut = [one.query, one.label.text, *(m.text for m in one.true + one.stale)]
    assert {len(text) for text in cut} == {9}
