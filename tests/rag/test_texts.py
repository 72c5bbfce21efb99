"""Texts are cut into passages that keep sentences whole and never exceed 100 words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import InputError
from unstale.rag.texts import WORDS, read_texts


def passages(path: Path) -> list[tuple[str, str]]:
    return [(target.title, target.text or "") for _, target in read_texts(str(path), False)]


def test_a_heading_is_the_title_of_what_follows(tmp_path: Path) -> None:
    text = "Before.\n\n# Refunds #\nOne.\n\nTwo.\n```\n# no heading\n```\n## Shipping\n\nThree.\n"
    path = tmp_path / "manual.md"
    path.write_text(text)
    assert passages(path) == [
        ("manual", "Before."),
        ("Refunds", "One. Two. ``` # no heading ```"),
        ("Shipping", "Three."),
    ]
    path = path.rename(tmp_path / "manual.txt")  # where a hash is only a hash
    assert [title for title, _ in passages(path)] == ["manual"]


def test_a_paragraph_is_kept_whole_if_it_fits(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    first, second = "a " * 59 + "a.", "b " * 59 + "b."
    path.write_text(f"{first}\n\n{second}")
    assert [text for _, text in passages(path)] == [first, second]


def test_a_long_paragraph_is_cut_between_sentences(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    sentences = [f"{letter} " * 39 + f"{letter}." for letter in "abc"]  # of 40 words each
    path.write_text(" ".join(sentences))
    cut = [" ".join(sentences[:2]), sentences[2]]
    assert [text for _, text in passages(path)] == cut


@given(st.lists(st.lists(st.integers(1, 250), max_size=4), max_size=5).filter(any))
def test_no_word_is_lost_and_no_passage_too_long(tmp_path_factory, paragraphs) -> None:
    path = tmp_path_factory.mktemp("texts") / "t.txt"
    lengths = [n for sentences in paragraphs for n in sentences]
    path.write_text("\n\n".join(" ".join("w " * (n - 1) + "w." for n in s) for s in paragraphs))
    cut = [text.split() for _, text in passages(path)]
    assert sum(map(len, cut)) == sum(lengths)
    assert all(0 < len(words) <= WORDS for words in cut)


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "manual.pdf").write_text("x")
    with pytest.raises(InputError, match=r"holds no texts: expected .txt or .md .*manual.pdf"):
        list(read_texts(str(tmp_path), False))
    with pytest.raises(InputError, match=r"manual.pdf: a corpus is one of .*save it as text"):
        list(read_texts(str(tmp_path / "manual.pdf"), False))


def test_a_table_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "pages.csv"
    path.write_text("id,Headline,html\n7,Ada,She wrote.\n8,,Bob.\n9,,\n")
    chosen = f"{path}:text=html,title=Headline"
    found = [(t.id, t.title, t.text) for _, t in read_texts(chosen, False)]
    assert found == [("7", "Ada", "She wrote."), ("8", "", "Bob.")]
    with pytest.raises(InputError, match=r"pages.csv: no column text or .*PATH:text=COLUMN"):
        list(read_texts(str(path), False))
