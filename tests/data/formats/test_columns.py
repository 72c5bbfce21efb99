"""Rows whose columns come and go, or hold what nobody asked for."""

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from tests.data.files import only, write

from unstale.data.formats import find_format
from unstale.data.formats.hf import from_columns
from unstale.data.formats.walk import examples
from unstale.data.load import load_dataset
from unstale.errors import InputError

SQUAD = {"text": ["Paris"], "answer_start": [3]}


def test_a_column_may_come_late(tmp_path: Path) -> None:
    rows = [
        {"query": "a", "positive": "x"},
        {"query": "b", "positive": "y", "negative_1": "z"},
        {"query": "c", "positive": "y", "negative_1": "x", "negative_2": "z", "query_id": 7},
        {"query": "d", "positive": "y", "answers": ["y", "why"]},
    ]
    dataset = load_dataset(str(write(tmp_path / "x.jsonl", *rows)))
    found = list(examples(dataset, "train"))
    assert [[t.text for t in e.negatives] for e in found] == [[], ["z"], ["x", "z"], []]
    assert found[2].id == "7"
    assert found[3].answers == ["y", "why"]


def test_made_up_query_ids_are_nobodys_either(tmp_path: Path) -> None:
    rows = [{"query": "a", "positive": "x"}, {"query": "b", "positive": "y", "query_id": "q0"}]
    dataset = load_dataset(str(write(tmp_path / "x.jsonl", *rows)))
    assert len(set(dataset.query_ids.take([0, 1]))) == 2
    assert dataset.query_ids[1] == "q0"


def test_a_named_column_may_come_late_but_not_never(tmp_path: Path) -> None:
    rows = [{"q": "a", "p": "x"}, {"q": "a", "p": "x", "bad": "z"}, {"q": "a", "p": "x"}]
    path = write(tmp_path / "x.jsonl", *rows)
    assert only(load_dataset(f"{path}:query=q,positive=p,negative=bad")) == ("a", ["x"], ["z"])
    with pytest.raises(InputError, match=r"x\.jsonl: no column worse; say which has the negative"):
        load_dataset(f"{path}:query=q,positive=p,negative=worse")
    with pytest.raises(InputError, match=r"x\.jsonl:1: no column r; say which has the positive"):
        load_dataset(f"{path}:query=q,positive=r")


def test_a_row_without_a_required_column_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", {"query": "a", "positive": "x"}, {"query": "b"})
    with pytest.raises(InputError, match=r"x\.jsonl:2: no column positive"):
        load_dataset(str(path))


def test_jsonl_is_written_with_every_column(tmp_path: Path) -> None:
    rows = [{"query": "a", "positive": "x"}, {"query": "b", "positive": "y", "negative_1": "z"}]
    dataset = load_dataset(str(write(tmp_path / "x.jsonl", *rows)))
    (tmp_path / "out").mkdir()
    find_format("jsonl").write(dataset, tmp_path / "out")
    lines = (tmp_path / "out" / "train.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"query": "a", "positive": "x", "negative_1": None}
    peer = Dataset.from_json(str(tmp_path / "out" / "train.jsonl"), cache_dir=str(tmp_path / "c"))
    assert peer.column_names == ["query", "positive", "negative_1"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "hf", "script"])
@pytest.mark.parametrize(
    ("column", "value"), [("answers", SQUAD), ("answers", [1]), ("query_id", 0.5)]
)
def test_columns_that_are_not_asked_for_may_hold_anything(
    kind: str, column: str, value: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = Dataset.from_list([{"question": "q", "context": "c", column: value}] * 2)
    named, where = {"query": "question", "positive": "context"}, tmp_path / f"set.{kind}"
    if kind == "script":
        dataset, columns = from_columns(rows, chosen=named)
        assert getattr(columns, column) is None
    else:
        save = {"jsonl": rows.to_json, "parquet": rows.to_parquet, "hf": rows.save_to_disk}[kind]
        save(str(where))
        dataset = load_dataset(f"{where}:query=question,positive=context")
    assert only(dataset) == ("q", ["c"], [])
    assert caplog.text.count(f"the column '{column}' is left out") == 1


@pytest.mark.parametrize(("column", "value"), [("answers", SQUAD), ("query_id", 0.5)])
def test_columns_that_are_asked_for_must_fit(column: str, value: Any, tmp_path: Path) -> None:
    row = {"question": "q", "context": "c", column: value}
    named = {"query": "question", "positive": "context", column: column}
    with pytest.raises(InputError, match=f"row 1: '{column}' must be a "):
        from_columns(Dataset.from_list([row]), chosen=named)
    path = write(tmp_path / "x.jsonl", row)
    with pytest.raises(InputError, match=rf"x\.jsonl:1: '{column}' must be a "):
        load_dataset(f"{path}:{','.join(f'{k}={v}' for k, v in named.items())}")


def test_a_column_that_began_well_is_held_to_it(tmp_path: Path) -> None:
    row = {"query": "q", "positive": "p"}
    rows = [row | {"answers": None}, row | {"answers": ["a"]}, row | {"answers": [1]}]
    with pytest.raises(InputError, match=r"x\.jsonl:3: 'answers' must be a list of strings"):
        load_dataset(str(write(tmp_path / "x.jsonl", *rows)))


@pytest.mark.parametrize(
    ("corpus", "rule"),
    [
        ("abc", r"corpus must be a list of texts, found one text: 'abc'"),
        (["a", None], r"the corpus, text 2: 'corpus' must be a string, found None"),
        (["a", "b", " \n"], r"the corpus, text 3: the text is empty"),
        (["a", 7], r"the corpus, text 2: 'corpus' must be a string, found 7"),
    ],
)
def test_a_bad_corpus_in_a_script_is_named(corpus: Any, rule: str) -> None:
    rows = Dataset.from_dict({"query": ["q"], "positive": ["p"]})
    with pytest.raises(InputError, match=rule):
        from_columns(rows, corpus if isinstance(corpus, str) else iter(corpus))


def test_a_cell_of_spaces_is_no_negative() -> None:
    cells = {"query": ["q", "q"], "positive": ["p", "p"], "negative": ["  ", "n"]}
    assert only(from_columns(Dataset.from_dict(cells))[0]) == ("q", ["p"], ["n"])
    with pytest.raises(InputError, match="1 skipped, the column 'positive' is empty: rows 1"):
        from_columns(Dataset.from_dict({"query": ["q"], "positive": ["\t"]}))


def test_a_column_is_found_by_its_last_word(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("Question No,Customer Question, The_Answer\n1,who,me\n")
    dataset = load_dataset(str(table), progress=False)
    assert (list(dataset.queries), list(dataset.targets)) == (["who"], ["me"])
    table.write_text("First Question,Second Question,Answer\nwho,why,me\n")
    with pytest.raises(InputError, match="no column query"):
        load_dataset(str(table), progress=False)  # it could be either


def test_spaces_around_a_chosen_column_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(" asked ,said\nwho,me\n")
    dataset = load_dataset(f"{tmp_path / 't.csv'}:query=asked,positive=said", progress=False)
    assert list(dataset.queries) == ["who"]
