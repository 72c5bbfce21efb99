"""Is an ordinary table read, whatever its separator, encoding, names of columns and dirt?"""

from pathlib import Path

import pytest
from tests.data.files import only, write

from unstale.data.load import load_dataset
from unstale.errors import InputError


def test_a_pair_of_columns_and_a_list_of_negatives(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", {"question": "q", "answer": "a", "negatives": ["b", "c"]})
    assert only(load_dataset(str(path))) == ("q", ["a"], ["b", "c"])
    path = write(tmp_path / "y.jsonl", {"title": "q", "body": "a", "bad_1": "b", "bad_2": "c"})
    named = f"jsonl:{path}:query=title,positive=body,negative=bad"
    assert only(load_dataset(named)) == ("q", ["a"], ["b", "c"])


def test_a_corpus_beside_a_file_that_is_read_alone_is_pointed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "train.csv").write_text("query,positive\nwho,me\n")
    (tmp_path / "corpus.csv").write_text("id,text\n7,you\n")
    assert len(load_dataset(str(tmp_path / "train.csv"), progress=False).targets) == 1
    assert "corpus.csv lies beside train.csv and is not read: name their folder" in caplog.text
    caplog.clear()
    assert len(load_dataset(str(tmp_path), progress=False).targets) == 2
    assert "not read" not in caplog.text


def test_a_spreadsheets_csv_has_a_byte_order_mark_and_quotes(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b'\xef\xbb\xbfquery,positive\r\n"a, b","two\r\nlines"\r\n')
    assert only(load_dataset(str(tmp_path / "x.csv"))) == ("a, b", ["two\r\nlines"], [])


MESSY = """Question;Category ; The-Answer
who?;a;me
;;

where?;b;
who?;a;me
when?;c;"now; or
later"
why;not
what?;d;caf\u00e9
"""


@pytest.mark.parametrize(("encoding", "separator"), [("utf-8-sig", ";"), ("cp1252", ","),
                                                     ("utf-8", "\t"), ("cp1252", "|")])  # fmt: skip
def test_a_messy_csv_is_read_and_what_was_skipped_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, encoding: str, separator: str
) -> None:
    text = MESSY.replace("The-Answer", "ANSWER").replace(";", separator)
    (tmp_path / "faq.csv").write_bytes(text.encode(encoding))
    dataset = load_dataset(str(tmp_path / "faq.csv"))
    pairs = dataset.split("train").pairs
    queries, targets = dataset.queries.take(pairs[:, 0]), dataset.targets.take(pairs[:, 1])
    assert list(zip(queries, targets, strict=True)) == [
        ("who?", "me"), ("when?", f"now{separator} or\nlater"), ("what?", "caf\u00e9"),
    ]  # fmt: skip
    assert dataset.counts["skipped_rows"] == 5
    assert "8 rows" in caplog.text
    assert "3 queries, 3 targets, 5 skipped; query from 'Question', positive from ' ANSWER'" in (
        caplog.text
    )
    assert "2 skipped, the row is blank: lines 3, 4" in caplog.text
    assert "1 skipped, the column ' ANSWER' is empty: lines 5" in caplog.text
    assert "1 skipped, the row repeats an earlier one: lines 6" in caplog.text
    assert "1 skipped, expected 3 fields as in the header, found 2: lines 9" in caplog.text
    assert ("read as cp1252" in caplog.text) == (encoding == "cp1252")
    assert (f"separated by {separator!r}" in caplog.text) == (separator != ",")
    with pytest.raises(InputError, match=r"faq\.csv:3: the row is blank; without --strict"):
        load_dataset(str(tmp_path / "faq.csv"), strict=True)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"a,b\n1,2\n", r"x\.csv:2: no column query or .* PATH:query=COLUMN; there are \['a', 'b'"),
        ("query,positive\na,b\n".encode("utf-16"), "is UTF-16; expected UTF-8"),
        ("query,positive\né,b\n".encode() + b"\xe9,b\n", r"x\.csv:3: not UTF-8"),
        (b"query,positive\n\x81,b\n", r"x\.csv:2: not UTF-8, nor cp1252"),
        (b"query,positive\na,b,c\nd,e,f\ng,h\n", r"2 of 3 rows hold no example: the separator"),
    ],
)  # fmt: skip
def test_a_file_that_was_named_itself_is_told_what_is_wrong_by_its_reader(
    tmp_path: Path, text: bytes, rule: str
) -> None:
    (tmp_path / "x.csv").write_bytes(text)
    with pytest.raises(InputError, match=rule):
        load_dataset(str(tmp_path / "x.csv"))


def test_a_title_is_a_query_only_in_a_file_that_was_named_itself(tmp_path: Path) -> None:
    write(tmp_path / "passages.jsonl", {"title": "t", "text": "x"})
    assert only(load_dataset(str(tmp_path / "passages.jsonl"))) == ("t", ["x"], [])
    write(tmp_path / "train.jsonl", {"Search Query": "q", "positive": "p"})
    assert only(load_dataset(str(tmp_path))) == ("q", ["p"], [])
