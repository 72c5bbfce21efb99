"""SQuAD's files as a retrieval dataset."""

import json
import runpy
from pathlib import Path

import pytest

from unstale.data.load import load_dataset
from unstale.errors import InputError

MAKE = runpy.run_path(str(Path(__file__).parents[2] / "experiments" / "squad_open.py"))["make"]


def article(title: str, *paragraphs: str) -> dict:
    return {
        "title": title,
        "paragraphs": [
            {
                "context": text,
                "qas": [
                    {"question": f"what of {text}?", "answers": [{"text": text}, {"text": text}]}
                ],
            }
            for text in paragraphs
        ],
    }


def test_articles_keep_to_their_splits_and_paragraphs_stand_once(tmp_path: Path) -> None:
    files = {
        "train": [article("Rome", "forum", "tiber"), article("Czech_language", "vowels")],
        "dev": [article("Normans", "duke", "forum")],  # one that is in train, too
    }
    for name, articles in files.items():
        (tmp_path / name).write_text(json.dumps({"data": articles}))
    counts = MAKE(tmp_path / "train", tmp_path / "dev", tmp_path / "made")
    assert counts == {"targets": 4, "train": 2, "dev": 1, "test": 2}
    made = load_dataset(str(tmp_path / "made"))
    asked = {name: made.queries.take(found.query) for name, found in made.qrels.items()}
    assert asked["dev"] == ["what of vowels?"]  # an article that is set aside
    assert asked["test"] == ["what of duke?", "what of forum?"]
    shared = made.split("test").target[1]
    assert "forum" in made.targets[int(shared)]
    assert made.answers is not None
    assert list(made.answers[0]) == ["vowels"]
    with pytest.raises(InputError, match="is there already"):
        MAKE(tmp_path / "train", tmp_path / "dev", tmp_path / "made")
    (tmp_path / "dev").write_text("{}")
    with pytest.raises(InputError, match="no file of SQuAD"):
        MAKE(tmp_path / "train", tmp_path / "dev", tmp_path / "other")
