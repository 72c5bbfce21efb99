"""Every bad input is named: file, line, rule, value."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from unstale.data.formats.beir import read_beir
from unstale.errors import InputError


@pytest.fixture
def folder(beir: Path, tmp_path: Path) -> Path:
    return shutil.copytree(beir, tmp_path / "world")


def test_reads_rows_texts_qrels_and_answers(beir: Path) -> None:
    dataset = read_beir(beir)
    assert len(dataset.targets) == 120
    assert dataset.targets[13] == "mountain The mountain is deep and number 13 is here."
    assert dataset.target_ids[13] == "t13"
    assert dataset.answers is not None
    assert dataset.answers[13] == ["deep"]
    assert sorted(dataset.qrels) == ["dev", "test", "train"]
    np.testing.assert_array_equal(
        dataset.split("dev").pairs[:, 0], dataset.split("dev").pairs[:, 1]
    )
    assert dataset.counts["train_pairs"] == 80


BAD_LINES = [
    ("{", "not a JSON object"),
    ("[1]", "expected a JSON object"),
    ('{"_id": "new"}', "'text' must be a string"),
    ('{"_id": 7, "text": "x"}', "'_id' must be a string, found 7"),
    ('{"_id": "new", "text": "  "}', "'new' has an empty text"),
    ('{"_id": "t0", "text": "x"}', "duplicate id 't0', first seen as row 0"),
    ('{"_id": "new", "text": "\\ud800"}', "not valid Unicode"),
    ('{"_id": "new", "title": 3, "text": "x"}', "'title' must be a string"),
    ("[" * 100_000, "not a JSON object"),
]


@pytest.mark.parametrize(("line", "rule"), BAD_LINES)
def test_a_bad_corpus_line_is_named(folder: Path, line: str, rule: str) -> None:
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError) as error:
        read_beir(folder)
    assert "corpus.jsonl:121" in str(error.value)
    assert rule in str(error.value)
    assert len(str(error.value)) < 400


def test_invalid_utf8_is_named(folder: Path) -> None:
    with (folder / "queries.jsonl").open("ab") as file:
        file.write(b'{"_id": "x", "text": "\xff"}\n')
    with pytest.raises(InputError, match=r"queries\.jsonl:121.*UTF-8"):
        read_beir(folder)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("q0\tt0", "expected query-id, corpus-id, score"),
        ("nobody\tt0\t1", "there is no query with the id 'nobody'"),
        ("q0\tnothing\t1", "there is no target with the id 'nothing'"),
        ("q0\tt1\thigh", "a grade is a whole number below 2^31, found 'high'"),
    ],
)
def test_a_bad_qrels_line_is_named(folder: Path, line: str, rule: str) -> None:
    with (folder / "qrels" / "dev.tsv").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError) as error:
        read_beir(folder)
    assert "dev.tsv:22" in str(error.value)
    assert rule in str(error.value)


def test_contradicting_judgements_are_refused(folder: Path) -> None:
    (folder / "qrels" / "dev.tsv").write_text("q0\tt0\t1\nq0\tt0\t0\n")
    with pytest.raises(InputError, match=r"dev\.tsv:2: this pair was judged before"):
        read_beir(folder)


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl", "qrels"])
def test_missing_parts_are_named(folder: Path, missing: str) -> None:
    path = folder / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=missing):
        read_beir(folder)


def test_bad_answers_are_refused(folder: Path) -> None:
    record = {"_id": "x", "text": "y", "metadata": {"answers": [1]}}
    with (folder / "queries.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    with pytest.raises(InputError, match=r"queries\.jsonl:121.*metadata\.answers"):
        read_beir(folder)


def test_unknown_split_lists_those_there_are(beir: Path) -> None:
    with pytest.raises(InputError, match=r"no split 'validation'.*dev.*test.*train"):
        read_beir(beir).split("validation")
