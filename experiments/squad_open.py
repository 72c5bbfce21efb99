"""Make `squad-open` of SQuAD 1.1: find the paragraph that answers a question, among all of them.

    python experiments/squad_open.py --train train-v1.1.json --dev dev-v1.1.json --output squad-open

The two files are those of https://rajpurkar.github.io/SQuAD-explorer (CC BY-SA 4.0). SQuAD's own
dev set is the test split here; 19 articles of its train set are the dev split, so that no article
is in two splits. The corpus has the paragraphs of all. Answers go along, for `unstale rag`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from unstale.errors import InputError
from unstale.files import atomic_folder

DEV = {
    "Aspirated consonant", "Black people", "Brain", "Cardinal (Catholicism)", "Czech language",
    "Dissolution of the Soviet Union", "Financial crisis of 2007%E2%80%9308", "Flowering plant",
    "Gothic architecture", "Greece", "High-definition television", "Letter case",
    "Molotov%E2%80%93Ribbentrop Pact", "Political philosophy",
    "St. John%27s, Newfoundland and Labrador", "The Legend of Zelda: Twilight Princess",
    "The Sun (United Kingdom)", "Utrecht", "War on Terror",
}  # fmt: skip
COUNTS = {"targets": 20_958, "train": 84_003, "dev": 3_596, "test": 10_570}


def main() -> None:
    """Read the flags and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, required=True, help="train-v1.1.json")
    parser.add_argument("--dev", type=Path, required=True, help="dev-v1.1.json")
    parser.add_argument("--output", type=Path, required=True, help="A folder that is not there.")
    chosen = parser.parse_args()
    found = make(chosen.train, chosen.dev, chosen.output)
    print(f"{chosen.output}: {found}")
    if found != COUNTS:
        print(f"the figures in the docs are of other files: {COUNTS}")


def make(train: Path, dev: Path, output: Path) -> dict[str, int]:
    """Write BEIR's layout, and return how many targets there are, and queries of each split."""
    if output.exists():
        raise InputError(f"{output} is there already")
    corpus: dict[str, dict[str, str]] = {}  # by text: some paragraphs stand twice
    queries: list[dict[str, Any]] = []
    qrels: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for path, own in ((train, "train"), (dev, "test")):
        for title, paragraph in _paragraphs(path):
            split = "dev" if own == "train" and title in DEV else own
            record = {"_id": f"p{len(corpus):05}", "title": title, "text": paragraph["context"]}
            target = corpus.setdefault(paragraph["context"], record)["_id"]
            for asked in paragraph["qas"]:
                query = f"q{len(queries):06}"
                answers = list(dict.fromkeys(a["text"] for a in asked["answers"]))
                metadata = {"answers": answers, "title": title, "split": split}
                queries.append({"_id": query, "text": asked["question"], "metadata": metadata})
                qrels[split].append(f"{query}\t{target}\t1")
    with atomic_folder(output) as folder:
        (folder / "qrels").mkdir()
        for name, rows in (("corpus", corpus.values()), ("queries", queries)):
            with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as out:
                out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        for split, lines in qrels.items():
            text = "\n".join(["query-id\tcorpus-id\tscore", *lines])
            (folder / "qrels" / f"{split}.tsv").write_text(text + "\n", "utf-8")
    return {"targets": len(corpus)} | {split: len(lines) for split, lines in qrels.items()}


def _paragraphs(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read a file of SQuAD; articles in the order of their titles."""
    try:
        articles = sorted(json.loads(path.read_bytes())["data"], key=lambda a: a["title"])
        return [(a["title"].replace("_", " "), p) for a in articles for p in a["paragraphs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no file of SQuAD 1.1 ({error!r})") from None


if __name__ == "__main__":
    main()
