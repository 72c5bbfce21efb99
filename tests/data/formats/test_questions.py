"""Which passage of DPR is relevant, and how are questions with answers alone read?"""

import json
from pathlib import Path

import pytest
from tests.data.formats.test_reading import DPR

from unstale.data.formats import find_format
from unstale.data.load import load_dataset
from unstale.errors import InputError


def write_dpr_folder(folder: Path, *, gold: bool = True) -> None:
    passages = ["1\tRome is old\tRome", "2\tParis, said he\tParis", "3\tparis again\tX"]
    folder.mkdir(exist_ok=True)
    (folder / "psgs_w100.tsv").write_text("\n".join(["id\ttext\ttitle", *passages]) + "\n")
    asked = ["what is the capital?\t['Paris']", 'who?\t"[""L\'Enfant"", \'he\']"']
    (folder / "nq-test.qa.csv").write_text("\n".join(asked) + "\n")
    if gold:
        ids = [{"title": "", "text": "as in the corpus", "passage_id": i} for i in ("2", "3")]
        record = {"question": "where?", "answers": ["Paris"], "positive_ctxs": ids}
        (folder / "nq-dev.json").write_text(json.dumps([record]))
        (folder / "nq-dev.qa.csv").write_text("where?\t['Paris']\n")


def test_of_several_positives_in_dpr_the_first_is_gold_unless_all_are_asked_for(
    tmp_path: Path,
) -> None:
    write_dpr_folder(tmp_path / "nq")
    first = load_dataset(str(tmp_path / "nq"))
    assert first.split("dev").pairs.tolist() == [[0, 1]]
    assert not len(first.split("dev").negatives)  # its companion is neither
    every = load_dataset(f"{tmp_path / 'nq'}:positives=all")
    assert every.split("dev").pairs.tolist() == [[0, 1], [0, 2]]
    with pytest.raises(InputError, match="positives=some must be positives=first or all"):
        load_dataset(f"{tmp_path / 'nq'}:positives=some")


def test_companions_of_the_gold_passage_are_part_of_a_corpus_made_of_contexts(
    tmp_path: Path,
) -> None:
    texts = [{"title": "", "text": t, "passage_id": t} for t in ("gold", "other")]
    (tmp_path / "nq.json").write_text(json.dumps([DPR | {"positive_ctxs": texts}]))
    dataset = load_dataset(str(tmp_path / "nq.json"))
    assert {"gold", "other"} < set(dataset.targets)
    assert len(dataset.split("train").pairs) == 1


def test_questions_and_answers_are_a_split_without_qrels(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_dpr_folder(tmp_path / "nq")
    dataset = load_dataset(str(tmp_path / "nq"))
    assert "nq-dev.qa.csv is not read: nq-dev.json has that split" in caplog.text
    assert set(dataset.qrels) == {"dev"}
    rows = dataset.query_rows("test")
    assert dataset.queries.take(rows) == ["what is the capital?", "who?"]
    assert [dataset.answers[row] for row in rows] == [["Paris"], ["L'Enfant", "he"]]
    with pytest.raises(InputError, match="the split 'test' has answers, and no qrels"):
        dataset.split("test")
    assert "splits without qrels (test)" in find_format("beir").loses(dataset)
    (tmp_path / "again").mkdir()
    find_format("dpr").write(dataset, tmp_path / "again")
    again = load_dataset(str(tmp_path / "again"))
    told = [again.answers[row] for row in again.query_rows("test")]
    assert told == [["Paris"], ["L'Enfant", "he"]]


def test_a_folder_of_a_corpus_and_questions_alone_is_read(tmp_path: Path) -> None:
    write_dpr_folder(tmp_path / "nq", gold=False)
    dataset = load_dataset(str(tmp_path / "nq"))
    assert not dataset.qrels
    assert len(dataset.query_rows("test")) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("what?\tParis", "expected a list of answers such as .'Paris'., found 'Paris'"),
        ("what?\t__import__('os')", "expected a list of answers"),
        ("what?\t[]", "the question 'what.' has no answer"),
        ("what?", "expected question and answers"),
    ],
)
def test_a_bad_line_of_questions_is_named(tmp_path: Path, line: str, said: str) -> None:
    write_dpr_folder(tmp_path / "nq")
    (tmp_path / "nq" / "nq-test.qa.csv").write_text(f"fine?\t['yes']\n{line}\n")
    with pytest.raises(InputError, match=f"nq-test.qa.csv:2: {said}"):
        load_dataset(str(tmp_path / "nq"))
