"""Cut pages of `squad-open` into short passages, for a reader that runs on a CPU core.

    python experiments/short_passages.py --data squad-open --output squad-sentences

Whole pages are drawn from each split. A passage has whole sentences of one paragraph, at most
`--words` words if no sentence is longer. Questions are kept if an answer has at most
`--answer-words` words, as in NQ-open, and stands in a passage of their paragraph, which is gold.
"""

import argparse
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unstale.files import atomic_folder

PAGES = {"train": 14, "dev": 3, "test": 6}
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")


def main() -> None:
    """Read the flags and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="squad-open")
    parser.add_argument("--output", type=Path, required=True, help="A folder that is not there.")
    parser.add_argument("--words", type=int, default=40, help="Most words of a passage.")
    parser.add_argument("--answer-words", type=int, default=5)
    chosen = parser.parse_args()
    print(cut(chosen.data, chosen.output, chosen.words, chosen.answer_words))


def cut(data: Path, output: Path, most: int, answer_words: int) -> dict[str, int]:
    """Write BEIR's layout, and return how many targets there are, and queries of each split."""
    paragraphs = {record["_id"]: record for record in _records(data / "corpus.jsonl")}
    asked = {record["_id"]: record for record in _records(data / "queries.jsonl")}
    passages: dict[str, list[dict[str, str]]] = {}  # of each paragraph
    kept: list[dict[str, Any]] = []
    qrels: dict[str, list[str]] = {}
    for split, pages in PAGES.items():
        lines = (data / "qrels" / f"{split}.tsv").read_text("utf-8").splitlines()[1:]
        judged = [line.split("\t")[:2] for line in lines]
        titles = sorted({paragraphs[target]["title"] for _, target in judged})
        drawn = set(random.Random(0).sample(titles, min(pages, len(titles))))
        own = {id: p for id, p in paragraphs.items() if p["title"] in drawn}
        passages |= {id: list(_passages(paragraph, most)) for id, paragraph in own.items()}
        qrels[split] = []
        for query, target in judged:
            answers = [
                answer for answer in asked[query]["metadata"]["answers"]
                if len(answer.split()) <= answer_words
            ]  # fmt: skip
            there = passages.get(target, [])
            gold = [p["_id"] for p in there if any(answer in p["text"] for answer in answers)]
            if gold:
                metadata = {"answers": answers}
                kept.append({"_id": query, "text": asked[query]["text"], "metadata": metadata})
                qrels[split].append(f"{query}\t{gold[0]}\t1")
    corpus = [passage for own in passages.values() for passage in own]
    with atomic_folder(output) as folder:
        (folder / "qrels").mkdir()
        for name, rows in (("corpus", corpus), ("queries", kept)):
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text(text, "utf-8")
        for split, lines in qrels.items():
            text = "\n".join(["query-id\tcorpus-id\tscore", *lines])
            (folder / "qrels" / f"{split}.tsv").write_text(text + "\n", "utf-8")
    return {"targets": len(corpus)} | {split: len(lines) for split, lines in qrels.items()}


def _passages(paragraph: dict[str, str], most: int) -> Iterator[dict[str, str]]:
    words: list[str] = []
    number = 0
    for sentence in [*_SENTENCE.split(paragraph["text"]), ""]:
        own = sentence.split()
        if words and (not own or len(words) + len(own) > most):
            id = f"{paragraph['_id']}-{number}"
            yield {"_id": id, "title": paragraph["title"], "text": " ".join(words)}
            words, number = [], number + 1
        words += own


def _records(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()
