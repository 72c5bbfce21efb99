"""Questions and answers from an ordinary table, with texts from a folder or a file beside it."""

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unstale.errors import InputError
from unstale.rag.load import load_questions
from unstale.rag.questions import QuestionSet

ROWS = [["Who wrote?", "Ada"], ["Who read?", "Bob"], ["Who slept?", "Carl"]]


def write(path: Path, names: list[str], rows: list[list[str]], delimiter: str = ",") -> str:
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([names, *rows])
    return str(path)


@pytest.fixture
def texts(tmp_path: Path) -> str:
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / "b.txt").write_text("Bob read a book.")
    (folder / "more" / "a.md").write_text("# Ada\n\nShe wrote programs.\n\n## Later\nShe rested.\n")
    return str(folder)


def pairs(questions: QuestionSet, split: str = "train") -> dict[str, list[str]]:
    rows = questions.rows(split).tolist()
    return {questions.dataset.queries[row]: list(questions.answers[row]) for row in rows}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["question", "answer"], ""),
        (["Search Query", "ANSWERS"], ""),
        (["Customer Question", "the answer "], ""),
        (["what is asked", "what is said"], ":question=what is asked,answer=what is said"),
    ],
)
@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ";"), (".csv", ","), (".tsv", "\t")])
def test_columns_are_found_or_named(
    tmp_path: Path, texts: str, names: list[str], chosen: str, suffix: str, delimiter: str
) -> None:
    table = write(tmp_path / f"faq{suffix}", names, ROWS, delimiter)
    questions = load_questions(table + chosen, corpus=texts)
    assert pairs(questions) == {query: [answer] for query, answer in ROWS}
    assert questions.dataset.name == "faq"


def test_the_texts_of_a_folder_are_the_corpus(tmp_path: Path, texts: str) -> None:
    table = write(tmp_path / "faq.csv", ["question", "answer"], ROWS)
    dataset = load_questions(table, corpus=texts).dataset
    found = dict(zip(dataset.target_ids, dataset.targets, strict=True))
    assert found == {
        "b.txt#1": "b Bob read a book.",
        "more/a.md#1": "Ada She wrote programs.",
        "more/a.md#2": "Later She rested.",
    }


def test_dirt_is_skipped_and_shown(tmp_path: Path, texts: str, caplog) -> None:
    dirt = [["", ""], ["Who ran?", " "], ROWS[0]]
    table = write(tmp_path / "faq.csv", ["question", "answer"], [*ROWS, *dirt])
    assert len(load_questions(table, corpus=texts).rows("train")) == 3
    assert "6 rows: 3 queries, 3 targets, 3 skipped; question from 'question'" in caplog.text
    assert "the column 'answer' is empty: lines 6" in caplog.text
    with pytest.raises(InputError, match=r"faq.csv:5: the row is blank; without --strict"):
        load_questions(table, corpus=texts, strict=True)


def test_several_answers(tmp_path: Path, texts: str) -> None:
    """A question on two rows has two answers, and so has a list, as pandas writes it."""
    rows = [["Who?", "Ada"], ["Who?", "A. L."], ["Why?", "['so', 'it is']"], ["What?", "[sic]"]]
    table = write(tmp_path / "faq.csv", ["question", "answer"], rows)
    found = pairs(load_questions(table, corpus=texts))
    assert found == {"Who?": ["Ada", "A. L."], "Why?": ["so", "it is"], "What?": ["[sic]"]}


def test_a_context_column_is_the_corpus_if_there_is_no_other(tmp_path: Path, texts: str) -> None:
    rows = [["Who?", "Ada", "Ada wrote."], ["Why?", "so", "Ada wrote."]]
    table = write(tmp_path / "squad.csv", ["question", "answer", "context"], rows)
    assert list(load_questions(table).dataset.targets) == ["Ada wrote."]
    assert len(load_questions(table, corpus=texts).dataset.targets) == 3


def test_a_folder_of_tables_with_splits(tmp_path: Path) -> None:
    folder = tmp_path / "faq"
    folder.mkdir()
    write(folder / "train.csv", ["question", "answer"], ROWS[:2])
    cells = {"question": ["Who slept?"], "answer": [["Carl", "C."]]}
    pq.write_table(pa.table(cells), folder / "test.parquet")
    write(folder / "corpus.csv", ["title", "text"], [["Ada", "She wrote."], ["", "Bob."], ["", ""]])
    questions = load_questions(str(folder))
    assert pairs(questions, "test") == {"Who slept?": ["Carl", "C."]}
    assert list(questions.dataset.targets) == ["Ada She wrote.", "Bob."]


@pytest.mark.parametrize(
    ("names", "chosen", "message"),
    [
        (["ask", "answer"], "", r"faq.csv: no column question or .*PATH:question=COLUMN.*'ask'"),
        (["question", "say"], "", r"name the answer by PATH:answer=COLUMN; there are .*'say'"),
        (["question", "answer"], ":answer=reply", r"no column reply"),
        (["question", "answer"], ":positive=answer", r"columns can be question, answer, context"),
    ],
)
def test_a_missing_column_is_named(
    tmp_path: Path, texts: str, names: list[str], chosen: str, message: str
) -> None:
    table = write(tmp_path / "faq.csv", names, ROWS)
    with pytest.raises(InputError, match=message):
        load_questions(table + chosen, corpus=texts)


def test_no_corpus(tmp_path: Path, texts: str) -> None:
    table = write(tmp_path / "faq.csv", ["question", "answer"], ROWS)
    with pytest.raises(InputError, match=r"faq.csv has no corpus.*--corpus"):
        load_questions(table)
    with pytest.raises(InputError, match=r"--corpus needs a file or a folder of questions"):
        load_questions("facts", corpus=texts)


def test_questions_to_measure_on_are_held_out(tmp_path: Path, texts: str) -> None:
    rows = [[f"Who is {i}?", f"name {i}"] for i in range(20)]
    table = write(tmp_path / "faq.csv", ["question", "answer"], rows)
    questions = load_questions(table, corpus=texts).hold_out("test", 0.1)
    held, left = (set(pairs(questions, split)) for split in ("test", "train"))
    assert (len(held), len(left)) == (2, 18)  # a tenth of 20
    assert held | left == {query for query, _ in rows}
    write(tmp_path / "faq.csv", ["question", "answer"], rows[::-1])
    again = load_questions(table, corpus=texts).hold_out("test", 0.1)
    assert set(pairs(again, "test")) == held
    assert questions.hold_out("test", 0.1) is questions


def test_gold_contexts_of_held_out_questions_are_held_out_too(tmp_path: Path) -> None:
    rows = [[f"Who is {i}?", f"name {i}", f"text {i}"] for i in range(20)]
    table = write(tmp_path / "faq.csv", ["question", "answer", "context"], rows)
    questions = load_questions(table).hold_out("test", 0.1)
    for split in ("test", "train"):
        gold = questions.dataset.split(split)
        assert gold.query_rows.tolist() == questions.rows(split).tolist()
