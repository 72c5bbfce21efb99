"""Held-out queries: the same ones every time, whole, and never trained on."""

from dataclasses import replace

import numpy as np
import pytest

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.data.holdout import hold_out
from unstale.errors import InputError


def make(queries: list[str], pairs: list[tuple[int, int]]) -> RetrievalDataset:
    """Make a dataset with a training split alone, of four targets."""
    query, target = np.array(pairs).T
    ids = Texts.of([str(i) for i in range(len(queries))])
    texts = Texts.of(list("abcd"))
    qrels = {"train": Qrels(query, target, np.ones_like(query))}
    return RetrievalDataset("world", texts, texts, ids, Texts.of(queries), qrels)


QUERIES = [f"query {i}" for i in range(40)]
PAIRS = [(i, i % 4) for i in range(40)] + [(i, (i + 1) % 4) for i in range(40)]


def held(dataset: RetrievalDataset, split: str) -> set[str]:
    return set(dataset.queries.take(dataset.split(split).query_rows))


def test_a_tenth_of_the_queries_is_held_out_with_all_their_pairs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dataset = hold_out(make(QUERIES, PAIRS), "test", 0.1)
    assert len(held(dataset, "test")) == 4
    assert not held(dataset, "test") & held(dataset, "train")
    assert (len(dataset.split("test").pairs), len(dataset.split("train").pairs)) == (8, 72)
    assert "4 of 40 training queries (10%) are held out" in caplog.text
    assert dataset.counts["held_out"] == "test"


def test_it_does_not_depend_on_the_order_of_the_rows() -> None:
    order = np.random.default_rng(0).permutation(40)
    shuffled = [QUERIES[i] for i in order]
    other = hold_out(make(shuffled, [(int(i), 0) for i in range(40)]), "test", 0.1)
    assert held(other, "test") == held(hold_out(make(QUERIES, PAIRS), "test", 0.1), "test")


def test_dev_is_held_out_beside_the_same_test() -> None:
    first, both = (hold_out(make(QUERIES, PAIRS), split, 0.1) for split in ("test", "dev"))
    assert held(both, "test") == held(first, "test")
    assert len(held(both, "dev")) == 4
    assert not held(both, "dev") & (held(both, "train") | held(both, "test"))
    assert both.held_out == ("test", "dev")


def test_queries_with_one_text_stay_together() -> None:
    dataset = hold_out(make(["a", "a", "b", "b"], [(i, i) for i in range(4)]), "test", 0.5)
    assert len(held(dataset, "test")) == 1
    assert len(dataset.split("test").pairs) == 2


def test_what_the_data_has_is_kept_and_what_it_lacks_is_named() -> None:
    dataset = make(QUERIES, PAIRS)
    ready = replace(dataset, qrels={**dataset.qrels, "test": dataset.qrels["train"]})
    assert hold_out(ready, "test", 0.1) is ready
    with pytest.raises(InputError, match="world has no split 'tset'; it has train"):
        hold_out(dataset, "tset", 0.1)
    with pytest.raises(InputError, match=r"has no split 'test'; --holdout 0\.1 takes a tenth"):
        hold_out(dataset, "test", 0.0)
    with pytest.raises(InputError, match="cannot hold out 1 of 1 training queries"):
        hold_out(make(["a"], [(0, 0)]), "test", 0.1)


MANY = [f"query {i}" for i in range(600)]


def test_a_few_queries_choose_the_weights_where_there_is_no_dev_split(
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = make(MANY, [(i, i % 4) for i in range(600)])
    dataset = hold_out(whole, "test", 0.1, dev=True)
    # A tenth of 600 is the test split, and a twentieth of the 540 that are left is dev.
    assert [len(held(dataset, split)) for split in ("test", "dev", "train")] == [60, 27, 513]
    assert not held(dataset, "dev") & (held(dataset, "train") | held(dataset, "test"))
    assert held(dataset, "test") == held(hold_out(whole, "test", 0.1), "test")
    assert "27 of 540 training queries (5%) are held out to choose the weights by" in caplog.text
    assert dataset.held_out == ("test", "dev")


def test_too_few_queries_choose_nothing() -> None:
    assert "dev" not in hold_out(make(QUERIES, PAIRS), "test", 0.1, dev=True).qrels
    whole = make(MANY, [(i, i % 4) for i in range(600)])
    assert (
        "dev"
        not in hold_out(
            replace(whole, qrels=whole.qrels | {"test": whole.qrels["train"]}),
            "test",
            0.0,
            dev=True,
        ).qrels
    )
