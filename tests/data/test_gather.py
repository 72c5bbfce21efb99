"""Texts in memory and on disk are the same texts; judgements are kept once, in order."""

from pathlib import Path

import pyarrow as pa
import pytest

from unstale.data import rows
from unstale.data.dataset import Texts
from unstale.data.gather import Example, Gatherer, Target
from unstale.data.rows import TextWriter
from unstale.errors import InputError


@pytest.mark.parametrize("limit", [0, 1000, 2**30])
def test_texts_are_the_same_in_memory_and_in_a_file(
    limit: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rows, "_SPILL", limit)
    monkeypatch.setattr(rows, "_CHUNK", 16)
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "cache"))
    writer, texts = TextWriter(), [f"text {i} ü" * (i % 5) for i in range(100)]
    for text in texts:
        writer.append(text)
    read = writer.finish()
    assert (tmp_path / "cache").exists() == (limit < 2**30)
    assert not list(tmp_path.glob("cache/*"))  # the file has no name: nothing can stay behind
    assert read.take(range(100)) == texts
    assert read[99] == texts[99]


def test_judgements_are_kept_once_and_positives_win() -> None:
    gatherer = Gatherer()
    a, b, c = (Target(None, "", text) for text in "abc")
    gatherer.example("train", Example(None, "q", [a], [c, b]), "line 1")
    gatherer.example("train", Example(None, "q", [b], [c, a]), "line 2")
    qrels = gatherer.dataset("x").split("train")
    assert qrels.pairs.tolist() == [[0, 0], [0, 2]]  # a, then b, which was a negative before
    assert qrels.negatives.tolist() == [[0, 1]]  # c


def test_an_id_with_another_text_is_told(caplog: pytest.LogCaptureFixture) -> None:
    gatherer = Gatherer()
    gatherer.example("train", Example(None, "q", [Target("1", "", "one")], []), "line 1")
    gatherer.example("train", Example(None, "r", [Target("1", "", "uno")], []), "line 2")
    dataset = gatherer.dataset("x")
    assert dataset.targets.take([0]) == ["one"]
    assert len(dataset.targets) == 1
    assert "x: 1 targets repeat an id with another text, the first counts" in caplog.text


def test_a_split_without_a_relevant_pair_is_refused() -> None:
    gatherer = Gatherer()
    gatherer.example("dev", Example(None, "q", [], [Target(None, "", "a")]), "line 1")
    with pytest.raises(InputError, match="x: the split dev holds no relevant pair"):
        gatherer.dataset("x")


def test_rows_are_found_by_id_or_by_text_and_a_text_is_no_id() -> None:
    found = rows.Rows("t")
    first = found.add("same", None, "line 1")
    assert found.add("same", None, "line 2") != first
    named = found.add("other", "same", "line 3")
    assert (found.find(b"same"), found.find("same"), found.find(b"other")) == (first, named, None)
    with pytest.raises(InputError, match="line 4: duplicate id 'same', first seen as row 2"):
        found.add("again", "same", "line 4")


def test_thousands_of_rows_are_found_again() -> None:
    found = rows.Rows("t")
    for number in range(5000):
        assert found.add(f"text {number}", f"id {number}", "here") == number
    assert [found.find(f"id {number}") for number in range(5000)] == list(range(5000))
    assert found.find("id 5000") is None


def test_taking_a_text_copies_no_other() -> None:
    texts = Texts(pa.chunked_array([pa.array(["x" * 2**20], pa.large_string())] * 8))
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert len(texts.take([7])[0]) == 2**20
    finally:
        pa.set_memory_pool(before)
    assert (pool.max_memory() or 0) < 2**22
