"""Questions as several datasets write them, each a line or a list, with or without a corpus."""

import json
from pathlib import Path

import pytest
import torch

from unstale.errors import InputError
from unstale.rag.load import load_questions

CORPUS = [{"_id": "a", "title": "Ada", "text": "Ada wrote."}, {"_id": "b", "text": "Bob read."}]


def write(path: Path, records: object) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = path.suffix == ".jsonl"
    text = "".join(json.dumps(r) + "\n" for r in records) if lines else json.dumps(records)
    path.write_text(text)


@pytest.mark.parametrize(
    ("record", "answers"),
    [
        ({"question": "who?", "answer": ["Ada", "Ada L."]}, ["Ada", "Ada L."]),  # NQ-open
        (
            {"question": "who?", "answer": {"value": "Ada", "aliases": ["A.", "Ada"]}},
            ["Ada", "A."],
        ),  # TriviaQA on the hub
        ({"question": "who?", "answer": "Ada"}, ["Ada"]),  # HotPotQA
        ({"question": "who?", "answers": ["Ada"], "target": "Ada L."}, ["Ada", "Ada L."]),  # Atlas
        ({"question": "who?", "answers": {"text": ["Ada"], "answer_start": [3]}}, ["Ada"]),  # SQuAD
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_answers_in_every_form(tmp_path: Path, record: dict, answers: list, suffix: str) -> None:
    write(tmp_path / "d" / "corpus.jsonl", CORPUS)
    write(tmp_path / "d" / f"train{suffix}", [record])
    write(tmp_path / "d" / f"validation{suffix}", [{"question": "why?", "answer": "so"}])
    questions = load_questions(str(tmp_path / "d"))
    assert {s: len(r) for s, r in questions.splits.items()} == {"train": 1, "dev": 1}
    row = int(questions.rows("train")[0])
    assert questions.dataset.queries[row] == "who?"
    assert list(questions.answers[row]) == answers
    assert list(questions.dataset.targets) == ["Ada Ada wrote.", "Bob read."]


def test_a_question_asked_twice_keeps_all_answers_and_its_split(tmp_path: Path) -> None:
    write(tmp_path / "d" / "corpus.jsonl", CORPUS)
    train = [{"question": "who?", "answer": "Ada"}, {"question": "who?", "answer": ["Bob", "Ada"]}]
    write(tmp_path / "d" / "train.jsonl", train)
    write(tmp_path / "d" / "test.jsonl", [{"question": "who?", "answer": "Carl"}])
    questions = load_questions(str(tmp_path / "d"))
    given = {s: [list(questions.answers[r]) for r in rows] for s, rows in questions.splits.items()}
    assert given == {"train": [["Ada", "Bob"]], "test": [["Carl"]]}


def test_the_original_file_of_triviaqa(tmp_path: Path) -> None:
    write(tmp_path / "d" / "corpus.jsonl", CORPUS)
    record = {"Question": "who?", "QuestionId": "t1", "Answer": {"Value": "Ada", "Aliases": ["A."]}}
    write(tmp_path / "d" / "train.json", {"Data": [record], "Version": 1.0})
    questions = load_questions(str(tmp_path / "d"))
    assert list(questions.answers[0]) == ["Ada", "A."]
    assert questions.dataset.query_ids[0] == "t1"


@pytest.mark.parametrize(
    ("record", "taught"),
    [
        ({"answer": {"value": "ADA LOVELACE", "aliases": ["A.", "Ada"]}}, {"Ada Lovelace"}),
        ({"answer": {"value": "Ada", "aliases": ["A.", "B."]}}, {"Ada"}),
        ({"answers": ["Ada", "A."], "target": "Ada L."}, {"Ada L."}),  # FiD, Atlas
        ({"answer": ["Ada", "A."]}, {"Ada", "A."}),  # NQ-open: any of them
    ],
)
def test_one_answer_is_trained_on_where_the_data_names_it(
    tmp_path: Path, record: dict, taught: set
) -> None:
    """As FiD does; whatever the data accepts is still right."""
    write(tmp_path / "d" / "corpus.jsonl", CORPUS)
    records = [{"question": f"who {i}?", **record} for i in range(40)]
    write(tmp_path / "d" / "train.jsonl", records)
    questions = load_questions(str(tmp_path / "d")).hold_out("test", 0.1)
    rows = torch.from_numpy(questions.rows("train"))
    assert set(questions.choose_answers(rows, 0, 0)) == taught
    assert len(questions.answers[0]) >= 2


def test_other_formats_are_read_as_what_they_are(tmp_path: Path) -> None:
    """DPR's files are questions with answers too, and they know their positives."""
    positive = {"title": "Ada", "text": "She wrote."}
    record = {"question": "who?", "answers": ["Ada"], "positive_ctxs": [positive]}
    write(tmp_path / "d" / "train.json", [record | {"negative_ctxs": [], "hard_negative_ctxs": []}])
    questions = load_questions(str(tmp_path / "d"))
    assert questions.dataset.split("train").pairs.tolist() == [[0, 0]]
    assert list(questions.answers[0]) == ["Ada"]


def test_two_files_of_one_split_are_refused(tmp_path: Path) -> None:
    for name in ("dev.jsonl", "validation.jsonl"):
        write(tmp_path / "d" / name, [{"question": "who?", "answer": "Ada"}])
    with pytest.raises(InputError, match="are both the split dev"):
        load_questions(str(tmp_path / "d"))


def test_contexts_are_the_corpus_if_there_is_no_other(tmp_path: Path) -> None:
    hotpot = {
        "_id": "h1",
        "question": "who?",
        "answer": "Ada",
        "context": [["Ada", ["She wrote. ", "She read."]], ["Bob", ["He slept."]]],
        "supporting_facts": [["Ada", 0]],
    }
    fid = {"question": "why?", "answers": ["so"], "ctxs": [{"title": "Bob", "text": "He slept."}]}
    write(tmp_path / "d" / "train.json", [hotpot])
    write(tmp_path / "d" / "test.jsonl", [fid])
    questions = load_questions(str(tmp_path / "d"))
    assert list(questions.dataset.targets) == ["Ada She wrote. She read.", "Bob He slept."]
    assert questions.dataset.split("train").pairs.tolist() == [[0, 0]]
    assert len(questions.dataset.split("test").pairs) == 0


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"question": "who?"}, r"train.jsonl:2: the question 'who\?' has no answer"),
        ({"question": 3, "answer": "x"}, r"train.jsonl:2.*'question'"),
        ({"question": "who?", "answer": [1]}, r"train.jsonl:2.*'answer'"),
        ({"question": "who?", "answer": "x", "context": [["a"]]}, r"train.jsonl:2: a context must"),
    ],
)
def test_bad_records_are_named(tmp_path: Path, record: dict, message: str) -> None:
    write(tmp_path / "d" / "corpus.jsonl", CORPUS)
    write(tmp_path / "d" / "train.jsonl", [{"question": "good?", "answer": "yes"}, record])
    with pytest.raises(InputError, match=message):
        load_questions(str(tmp_path / "d"))


def test_nothing_to_search(tmp_path: Path) -> None:
    write(tmp_path / "d" / "train.jsonl", [{"question": "who?", "answer": "Ada"}])
    with pytest.raises(InputError, match=r"has no corpus.*corpus.jsonl"):
        load_questions(str(tmp_path / "d"))
