"""Ids that repeat, that hold spaces, that are missing: each judgement finds its own texts."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.data.files import only, write

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.data.formats import find_format, ir_datasets
from unstale.data.load import load_dataset
from unstale.errors import InputError


def numbered(folder: Path) -> Path:
    """Write an MS MARCO folder whose splits both count their queries from 1."""
    (folder / "collection.tsv").write_text("0\tfor dev\n1\tfor train\n")
    for row, split in enumerate(("dev", "train")):
        (folder / f"queries.{split}.tsv").write_text(f"1\t{split} query\n")
        (folder / f"qrels.{split}.tsv").write_text(f"1\t0\t{row}\t1\n")
    return folder


def test_msmarco_judgements_go_to_the_query_of_their_own_split(tmp_path: Path) -> None:
    dataset = load_dataset(str(numbered(tmp_path)))
    assert only(dataset, "dev") == ("dev query", ["for dev"], [])
    assert only(dataset, "train") == ("train query", ["for train"], [])
    assert dataset.query_ids.take([0, 1]) == ["1", "train/1"]


def test_an_id_that_looks_renamed_is_taken_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", {"_id": "a", "text": "first"}, {"_id": "b", "text": "second"})
    queries = ({"_id": "1", "text": "bare"}, {"_id": "train/1", "text": "longer"})
    write(tmp_path / "queries.jsonl", *queries)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "train.tsv").write_text("1\ta\t1\n")
    assert only(load_dataset(str(tmp_path))) == ("bare", ["first"], [])


def test_an_id_that_repeats_within_one_list_of_queries_is_refused(tmp_path: Path) -> None:
    numbered(tmp_path)
    with (tmp_path / "queries.train.tsv").open("a") as file:
        file.write("2\tsecond\n2\tthird\n")
    with pytest.raises(InputError, match=r"queries\.train\.tsv:3: the query id '2' had another"):
        load_dataset(str(tmp_path))


class Part:
    """What the package ir_datasets gives for an id, as far as it is asked."""

    def __init__(self, split: str) -> None:
        self.split = split

    def docs_count(self) -> int:
        return 2

    def docs_iter(self) -> list[object]:
        texts = {"dev": "for dev", "train": "for train"}
        return [SimpleNamespace(doc_id=k, title="", default_text=t.__str__, text=None)
                for k, t in texts.items()]  # fmt: skip

    def queries_iter(self) -> list[object]:
        return [SimpleNamespace(query_id="1", default_text=f"{self.split} query".__str__)]

    def qrels_iter(self) -> list[object]:
        return [SimpleNamespace(query_id="1", doc_id=self.split, relevance=1)]


def test_ir_datasets_judgements_go_to_the_query_of_their_own_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ir_datasets, "_load", lambda id: Part(id.split("/")[1]))
    dataset = load_dataset("ir_datasets:x/train,x/dev")
    assert only(dataset, "train") == ("train query", ["for train"], [])
    assert only(dataset, "dev") == ("dev query", ["for dev"], [])


def pair(query_id: str, target_id: str) -> RetrievalDataset:
    one = np.array([0])
    return RetrievalDataset(
        name="x",
        target_ids=Texts.of([target_id, "other"]),
        targets=Texts.of(["text", "another"]),
        query_ids=Texts.of([query_id]),
        queries=Texts.of(["query"]),
        qrels={"train": Qrels(one, one, one + 1)},
    )


@pytest.mark.parametrize("name", ["beir", "msmarco"])
def test_spaces_in_ids_survive(name: str, tmp_path: Path) -> None:
    find_format(name).write(pair("q 1", "Ada Lovelace"), tmp_path)
    dataset = load_dataset(str(tmp_path))
    assert only(dataset) == ("query", ["text"], [])
    assert (dataset.query_ids[0], dataset.target_ids[0]) == ("q 1", "Ada Lovelace")


@pytest.mark.parametrize("name", ["beir", "msmarco"])
@pytest.mark.parametrize(
    ("ids", "rule"),
    [(("q\t1", "t"), "query 1 of x has the id 'q.t1'"), (("q", "t\n"), "target 1 .* 't.n'")],
)
def test_ids_that_would_break_a_line_are_refused(
    name: str, ids: tuple[str, str], rule: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rule):
        find_format(name).write(pair(*ids), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_corpus_of_a_table_has_each_id_once(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("query,positive\nq,two\n")
    (tmp_path / "corpus.csv").write_text('id,title,text\n1,,"one\nand"\n2,,two\n1,,uno\n')
    rule = r"corpus\.csv:5: duplicate id '1', first seen as row 0"
    with pytest.raises(InputError, match=rule):
        load_dataset(str(tmp_path))


@pytest.mark.parametrize("taken", ["t1", "t3"])
def test_ids_that_are_made_up_are_nobodys(taken: str, tmp_path: Path) -> None:
    corpus = [{"id": "a", "text": "one"}, {"text": "no id"}, {"id": taken, "text": "two"}]
    write(tmp_path / "corpus.jsonl", *corpus)
    rows = [{"query": "q", "positive": "outside"}, {"query": "r", "positive": "and out"}]
    write(tmp_path / "train.jsonl", *rows)
    dataset = load_dataset(str(tmp_path))
    ids = dataset.target_ids.take(range(5))
    assert len(set(ids)) == 5
    assert ids[0] == "a"
    assert ids[2] == taken
    assert dataset.targets.take(range(5)) == ["one", "no id", "two", "outside", "and out"]


def test_a_judgement_that_moves_to_a_twin_is_named() -> None:
    twins = replace(pair("q", "t"), targets=Texts.of(["same", "same"]))
    what = "which of several equal texts was judged"
    for name in ("csv", "jsonl", "parquet", "hf", "flagembedding"):
        assert what not in find_format(name).loses(twins)  # the first, which is the one found
        second = Qrels(np.array([0]), np.array([1]), np.array([1]))
        assert what in find_format(name).loses(replace(twins, qrels={"train": second}))
    assert what not in find_format("beir").loses(twins)
