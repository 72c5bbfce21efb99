import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.data import dataset as module
from unstale.data.dataset import Positives, Qrels, RetrievalDataset, Texts


def make(targets: list[str], pairs: list[tuple[int, int]], queries: int) -> RetrievalDataset:
    table = np.array(pairs, np.int64)
    return RetrievalDataset(
        name="made",
        target_ids=Texts.of([f"t{i}" for i in range(len(targets))]),
        targets=Texts.of(targets),
        query_ids=Texts.of([f"q{i}" for i in range(queries)]),
        queries=Texts.of([f"query {i}" for i in range(queries)]),
        qrels={"train": Qrels(table[:, 0], table[:, 1], np.ones(len(table), np.int64))},
    )


def test_groups_point_to_the_first_row_of_a_text() -> None:
    assert Texts.of(["a", "b", "a", "c", "b"]).groups.tolist() == [0, 1, 0, 3, 1]


def test_iterating_gives_every_text_in_order() -> None:
    texts = [f"text {i}" for i in range(5000)]  # more than one chunk
    assert list(Texts.of(texts)) == texts


def test_ids_are_found_in_whatever_piece_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FOUND_AT_ONCE", 3)  # pieces and Arrow chunks end elsewhere
    parts = [pa.array(part, pa.large_string()) for part in (["a", "b", "c", "d"], ["e", "f", "g"])]
    ids = Texts(pa.chunked_array(parts))
    assert ids.find(["g", "none", "a", "d", "e", "g"]).tolist() == [6, -1, 0, 3, 4, 6]
    assert ids.find([]).tolist() == []


def test_texts_are_looked_up_among_others_in_several_pieces() -> None:
    pieces = [["a", "b"], ["c", "b"]]  # of two that are equal, the first
    others = Texts(pa.chunked_array(pieces, pa.large_string()))
    some = Texts(pa.chunked_array([["c", "none"], ["b"]], pa.large_string()))
    assert some.rows_in(others).tolist() == [2, -1, 1]
    assert some.rows_in(Texts.of([])).tolist() == [-1, -1, -1]
    assert Texts.of([]).rows_in(others).tolist() == []


def test_positives_hold_the_twins_of_each_positive() -> None:
    dataset = make(["a", "b", "a", "c"], [(0, 0), (0, 3), (1, 1)], queries=3)
    rows = Positives(dataset, ["train"])(np.array([1, 0, 2]))
    assert rows.tolist() == [[1, -1, -1], [0, 2, 3], [-1, -1, -1]]


@given(st.data())
def test_positives_equal_the_definition(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=12))
    place = st.tuples(st.integers(0, 3), st.integers(0, len(texts) - 1))
    pairs = data.draw(st.lists(place, min_size=1, max_size=10, unique=True))
    found = Positives(make(texts, pairs, queries=4), ["train"])(np.arange(4))
    for query in range(4):
        relevant = {texts[t] for q, t in pairs if q == query}
        expected = [i for i, text in enumerate(texts) if text in relevant]
        assert [r for r in found[query].tolist() if r >= 0] == expected
