"""Growth by use: what the next query finds embedded is counted, over an index checked by eye."""

from pathlib import Path

import numpy as np
import torch

from unstale.migration.adapter import QueryAdapter
from unstale.migration.fusion import BothQueries
from unstale.migration.growth import growth, growth_table, replay
from unstale.migration.vectors import ArrayVectors
from unstale.migration.verdict import Rates
from unstale.migration.ways import PART, QUERY_SIDE

# 40 targets on four axes, ten to each: a query along an axis fetches those ten first, then the
# ten of its second axis.
INDEX = np.repeat(np.eye(4, dtype="f"), 10, axis=0)


def along(*axes: tuple[int, int]) -> BothQueries:
    vectors = torch.zeros(len(axes), 4)
    for query, (first, second) in enumerate(axes):
        vectors[query, first], vectors[query, second] = 2.0, 1.0
    return BothQueries(vectors, vectors)


def test_what_earlier_queries_fetched_is_known_to_the_next() -> None:
    same, none = np.eye(4, dtype="f"), np.zeros((1, 4), "f")
    adapter = QueryAdapter(0.9, same, 0.0, 1.0, 1.0, none, none, {})
    source = ArrayVectors(Path("old.npy"), INDEX)
    judged, earlier = along((0, 1), (2, 3)), along(*[(1, 3)] * 12)
    grown = replay(source, adapter, judged, earlier, np.arange(5))
    # Five targets of the first axis are known; the earlier queries add the twenty of axes 1 and 3.
    assert [(step.served, step.embedded) for step in grown] == [(0, 0), (10, 20), (12, 20)]
    assert grown[0].share.tolist() == [5 / 20, 0.0]
    assert grown[1].share.tolist() == [15 / 20, 10 / 20]
    values = {QUERY_SIDE: np.array([0.0, 1.0]), PART: np.array([1.0, 1.0])}
    rates = Rates(40, 5, 2.0, 0.0, tokens=1000.0, price=50.0)
    first, last, _ = growth(grown, values, rates)
    assert first["recall@10"]["value"] == (0.25 + 1) / 2
    assert last["recall@10"]["value"] == (0.75 + 1) / 2
    assert (last["seconds"], last["money"]) == (40.0, 20 * 1000 * 50 / 1e6)
    assert last["embedded_share"] == 0.625
    said = growth_table([first, last]).splitlines()
    assert said[3].split() == ["10", "20", "40", "s", "1.00", "62%", "0.875"]
