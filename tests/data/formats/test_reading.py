"""Files as the peers' own tools write them, and files that nobody should have written."""

import json
from pathlib import Path

import pytest
from datasets import Dataset
from tests.data.files import only, write

from unstale.data import lines
from unstale.data.formats.toolkits import parse_fid
from unstale.data.load import load_dataset
from unstale.data.names import split_name
from unstale.errors import InputError

DPR = {
    "dataset": "nq",
    "question": "big little lies season 2 how many episodes",
    "answers": ["seven"],
    "positive_ctxs": [{"title": "Season 2", "text": "seven of it", "score": 9, "passage_id": "3"}],
    "negative_ctxs": [{"title": "Other", "text": "plain", "passage_id": "2"}],
    "hard_negative_ctxs": [{"title": "Lies", "text": "hard", "psg_id": 1}],
}  # fmt: skip


def test_dpr_with_its_corpus_is_a_pretty_printed_array(tmp_path: Path) -> None:
    (tmp_path / "biencoder-nq-dev.json").write_text(json.dumps([DPR], indent=4))
    lines = ["id\ttext\ttitle", '1\t"he said ""no"""\tLies', "2\tplain\tOther", "3\tall\tSeason 2"]
    (tmp_path / "psgs_w100.tsv").write_text("\n".join([*lines, "4\tunused\tX"]) + "\n")
    dataset = load_dataset(str(tmp_path))
    assert len(dataset.targets) == 4
    # The corpus has the texts; hard negatives come first.
    assert only(dataset, "dev")[1:] == (["Season 2 all"], ['Lies he said "no"', "Other plain"])
    assert dataset.answers == [["seven"]]
    assert dataset.title_ends.tolist() == [4, 5, 8, 1]


@pytest.mark.parametrize("piece", [64, 2**20])
def test_an_array_may_be_larger_than_any_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(lines, "_PIECE", piece)
    monkeypatch.setattr(lines, "RECORD", 64)
    records = [{"number": i} for i in range(100)]
    path = tmp_path / "array.json"
    path.write_text(json.dumps(records, indent=2))
    read = list(lines.json_records(path, progress=False))
    assert [record for _, record in read] == records
    assert [where for where, _ in read] == [f"{path}:{3 * i + 2}" for i in range(100)]


def test_dpr_without_a_corpus_makes_one_of_the_contexts(tmp_path: Path) -> None:
    again = DPR | {"question": "another?", "negative_ctxs": []}
    (tmp_path / "nq.json").write_text(json.dumps([DPR, again]))  # all on one line
    dataset = load_dataset(str(tmp_path / "nq.json"))
    assert dataset.target_ids.take(range(3)) == ["3", "1", "2"]
    assert len(dataset.split("train").pairs) == 2


def test_tevatron_both_ways_are_the_same_data(tmp_path: Path) -> None:
    passage = {"docid": "5", "title": "T", "text": "inside"}
    inline = {"query_id": "7", "query": "what?", "positive_passages": [passage]}
    inline |= {"negative_passages": [{"docid": "6", "text": "outside"}]}
    write(tmp_path / "old" / "train.jsonl", inline)
    ids = {"query_id": "7", "query_text": "what?", "query_image": None}
    ids |= {"positive_document_ids": ["5"], "negative_document_ids": ["6"]}
    write(tmp_path / "new" / "train.jsonl", ids)
    write(tmp_path / "new" / "corpus.jsonl", passage, {"docid": "6", "text": "outside"})
    old, new = load_dataset(str(tmp_path / "old")), load_dataset(str(tmp_path / "new"))
    assert only(old) == only(new) == ("what?", ["T inside"], ["outside"])
    assert old.query_ids[0] == new.query_ids[0] == "7"


def test_flagembedding_ignores_scores_and_prompts(tmp_path: Path) -> None:
    record = {
        "query": "q",
        "pos": ["a", "b"],
        "neg": ["c", "a"],
        "pos_scores": [1, 2],
        "prompt": "p",
    }
    dataset = load_dataset(str(write(tmp_path / "toy_finetune_data.jsonl", record)))
    assert only(dataset) == ("q", ["a", "b"], ["c"])  # what is positive is no negative


def test_fid_takes_contexts_with_an_answer_as_relevant() -> None:
    contexts = [
        {"id": "1", "title": "t", "text": "It was the EIFFEL tower!"},
        {"id": "2", "title": "t", "text": "A tower of eiffelite."},
        {"id": "3", "title": "t", "text": "Eiffel tower, but not so.", "has_answer": False},
    ]
    record = {"id": "0", "question": "what?", "answers": ["Eiffel Tower"], "ctxs": contexts}
    example = parse_fid(record, "here")
    assert [t.id for t in example.positives] == ["1"]
    assert [t.id for t in example.negatives] == ["2", "3"]


def test_atlas_passages_and_ids_that_start_again_in_each_split(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    passage = {"title": "France", "text": "Paris is its capital"}
    for split, question in (("train", "capital?"), ("test", "which city?")):
        record = {"id": 0, "question": question, "target": "Paris", "passages": [passage]}
        write(tmp_path / f"{split}.jsonl", record)
    write(tmp_path / "passages.jsonl", {"id": "9", "title": "Spain", "text": "Madrid"})
    dataset = load_dataset(str(tmp_path))
    assert sorted(dataset.query_ids.take([0, 1])) == ["0", "train/0"]
    assert "1 query ids mean another text" in caplog.text
    assert dataset.answers == [["Paris"], ["Paris"]]
    assert len(dataset.targets) == 2


def test_msmarco_splits_are_named_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("0\tfirst\tpart\n1\tsecond\n")
    (tmp_path / "queries.dev.small.tsv").write_text("11\twhat?\n")
    (tmp_path / "qrels.dev.small.tsv").write_text("11 0 1 1\n")
    (tmp_path / "queries.eval.tsv").write_text("12\twho?\n")
    dataset = load_dataset(str(tmp_path))
    assert only(dataset, "dev.small") == ("what?", ["second"], [])
    assert dataset.targets[0] == "first\tpart"


def test_sentence_transformers_columns_on_disk(tmp_path: Path) -> None:
    rows = {"anchor": ["q", "q"], "positive": ["a", "b"], "negative_1": ["c", "c"]}
    rows |= {"negative_2": ["d", None]}
    Dataset.from_dict(rows).save_to_disk(str(tmp_path / "set"))
    assert only(load_dataset(str(tmp_path / "set"))) == ("q", ["a", "b"], ["c", "d"])


def test_ids_of_ir_datasets_need_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ir_datasets", None)  # as if not installed
    with pytest.raises(InputError, match=r"pip install unstale\[ir-datasets\]"):
        load_dataset("ir_datasets:beir/scifact/test")


def test_ids_of_ir_datasets_become_splits(tmp_path: Path) -> None:
    ir_datasets = pytest.importorskip("ir_datasets")
    for name, text in (("d.tsv", "1\tone\n2\ttwo\n"), ("q.tsv", "7\twhich?\n"), ("r", "7 0 2 1\n")):
        (tmp_path / name).write_text(text)
    parts = {"docs_tsv": "d.tsv", "queries_tsv": "q.tsv", "qrels_trec": "r"}
    made = ir_datasets.create_dataset(**{k: str(tmp_path / v) for k, v in parts.items()})
    ir_datasets.registry.register("unstale-test/dev", made)
    dataset = load_dataset("ir_datasets:unstale-test/dev")
    assert only(dataset, "dev") == ("which?", ["two"], [])


@pytest.mark.parametrize(
    ("name", "text", "where", "rule"),
    [
        ("x.json", '[\n{"question": "q", "positive_ctxs": [{"text": "a"}]},\n{"question": 3}\n]',
         "x.json:3", "'question' must be a string, found 3"),
        ("train.json", '[{"question": "q", "positive_ctxs": [{"text": "a"}]},\n\n{"question": ',
         "train.json:3", "not a JSON object"),
        ("train.json", '[{"question": "q", "positive_ctxs": [{"text": "a"}]}', "train.json:1",
         "the array does not end"),
        ("train.json", '[{"question": "q", "positive_ctxs": [{"text": "a"}]}, 7]', "train.json:1",
         "expected a JSON object, found 7"),
        ("x.jsonl", '{"query": "q", "pos": ["a"]}\n{"query": "r", "pos": [1]}\n', "x.jsonl:2",
         "'pos' must be a list of strings, found [1]"),
        ("x.jsonl", '{"query": "q", "pos": ["a"]}\n{"query": " ", "pos": ["b"]}\n', "x.jsonl:2",
         "the query is empty"),
        ("x.jsonl", '{"query": "q", "pos": [" "]}\n', "x.jsonl:1", "has an empty text"),
        ("x.csv", "query,positive\na,b\nc\n", "x.csv:3", "expected 2 fields as in the header"),
        ("x.csv", 'query,positive\na,b\nc,"d\n', "x.csv:3", "unexpected end of data"),
        ("x.csv", "query,positive\na,\n", "x.csv:2", "the column 'positive' is empty"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, name: str, text: str, where: str, rule: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        load_dataset(str(tmp_path / name), strict=True)
    assert where in str(error.value)
    assert rule in str(error.value)


def test_a_document_id_that_no_corpus_has_is_named(tmp_path: Path) -> None:
    record = {"query_id": "7", "query_text": "q", "positive_document_ids": ["5"]}
    path = write(tmp_path / "train.jsonl", record)
    with pytest.raises(InputError, match=r"give a folder that has corpus\.jsonl"):
        load_dataset(str(path))
    write(tmp_path / "corpus.jsonl", {"docid": "6", "text": "x"})
    with pytest.raises(InputError, match=r"train\.jsonl:1: no target .* has the id '5'"):
        load_dataset(str(tmp_path))


def test_a_name_may_say_format_and_columns() -> None:
    source = split_name("hf:owner/set/triplet:query=a,positive=b")
    assert (source.format, source.place) == ("hf", "owner/set/triplet")
    assert source.columns == {"query": "a", "positive": "b"}
    assert split_name("C:/data").place == "C:/data"  # no format is called C
