"""What becomes of queries for which fewer negatives were found than asked."""

import json
from pathlib import Path

import numpy as np
import pytest

from unstale.cli.main import main
from unstale.data.dataset import RetrievalDataset
from unstale.miners.offline import MinedSplit, Short, complete, with_negatives


def make(dataset: RetrievalDataset) -> MinedSplit:
    """Three queries: one with both negatives, one with one, one with none."""
    queries = dataset.split("train").query_rows[:3]
    return MinedSplit(queries, np.array([[7, 8], [9, -1], [-1, -1]]))


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ("drop", [[7, 8]]),
        ("pad", [[7, 8], [9, 9]]),
        ("keep", [[7, 8], [9, -1], [-1, -1]]),
    ],
)
def test_rows_that_are_short(dataset: RetrievalDataset, how: Short, kept: list) -> None:
    mined = make(dataset)
    queries = mined.queries
    assert complete(mined, dataset, how) == 2
    assert mined.targets.tolist() == kept
    assert mined.queries.tolist() == queries[: len(kept)].tolist()
    written = with_negatives(dataset, "train", mined).split("train")
    assert set(written.query) == set(queries[: len(kept)])  # and no others are in the split


def test_refilled_rows_have_other_targets_that_are_not_positive(dataset: RetrievalDataset) -> None:
    mined = make(dataset)
    assert complete(mined, dataset, "refill") == 2
    pairs = {tuple(pair) for qrels in dataset.qrels.values() for pair in qrels.pairs.tolist()}
    for query, row in zip(mined.queries.tolist(), mined.targets.tolist(), strict=True):
        assert len(set(row)) == 2
        assert min(row) >= 0
        assert all((query, target) not in pairs for target in row)
    assert mined.targets[1, 0] == 9


def test_a_query_is_refilled_alike_in_any_company(dataset: RetrievalDataset) -> None:
    whole, alone = make(dataset), make(dataset)
    alone = MinedSplit(alone.queries[2:], alone.targets[2:])
    for mined in (whole, alone):
        complete(mined, dataset, "refill")
    assert whole.targets[2].tolist() == alone.targets[0].tolist()


def test_a_refill_takes_what_there_is(dataset: RetrievalDataset) -> None:
    few = dataset.with_targets(np.arange(4))  # one of them is the query's positive, maybe
    mined = MinedSplit(np.array([few.split("train").query_rows[0]]), np.array([[-1] * 4]))
    assert complete(mined, few, "refill") == 1
    assert not len(mined.queries)  # no query can have as many


def read(path: Path) -> list[dict[str, str | None]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_no_cell_is_null(beir: Path, bert_folder: Path, tmp_path: Path, capsys) -> None:
    words = ["mine", "--data", str(beir), "--model", str(bert_folder), "--hard-negatives", "3"]
    words += ["--absolute-margin", "0", "--range-max", "30"]
    assert main([*words, "--short", "keep", "--output", str(tmp_path / "kept")]) == 0
    rows = read(tmp_path / "kept" / "train.jsonl")
    short = sum(None in row.values() for row in rows)
    assert 0 < short < len(rows)  # or the test shows nothing
    capsys.readouterr()
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    whole = read(tmp_path / "out" / "train.jsonl")
    assert len(whole) == len(rows) - short
    assert all(None not in row.values() for row in whole)
    assert f"{short} queries had fewer than 3 negatives: left out" in capsys.readouterr().out
