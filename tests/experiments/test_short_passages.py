"""Pages cut into passages of whole sentences, and the questions that one of them answers."""

import json
from pathlib import Path

import pytest

from experiments import short_passages
from unstale.rag.load import load_questions

TEXT = "Ada wrote a program. It was long and the first of all! Bob read it twice. He slept."


def test_passages_keep_sentences_and_the_gold_one_has_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_passages, "PAGES", {"train": 1, "test": 1})
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"p{i}", "title": f"Page {i}", "text": TEXT} for i in range(2)]
    asked = [
        ("q0", "p0", "Bob"),
        ("q1", "p1", "Ada"),
        ("q2", "p0", "a b c d e f"),
        ("q3", "p1", "no"),
    ]
    queries = [{"_id": q, "text": f"{q}?", "metadata": {"answers": [a]}} for q, _, a in asked]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    for split, page in (("train", "p0"), ("test", "p1")):
        lines = [f"{q}\t{p}\t1" for q, p, _ in asked if p == page]
        (data / "qrels" / f"{split}.tsv").write_text("\n".join(["head", *lines]) + "\n")
    counts = short_passages.cut(data, tmp_path / "cut", most=8, answer_words=5)
    assert counts == {"targets": 6, "train": 1, "test": 1}
    questions = load_questions(str(tmp_path / "cut"))
    texts = list(questions.dataset.targets)[:3]
    assert texts == [
        "Page 0 Ada wrote a program.",
        "Page 0 It was long and the first of all!",
        "Page 0 Bob read it twice. He slept.",
    ]
    query, target = questions.dataset.split("train").pairs[0].tolist()
    assert (questions.dataset.query_ids[query], texts[target]) == ("q0", texts[2])
