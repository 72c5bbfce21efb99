"""Cut a BEIR folder to some of its targets, and the queries whose relevant targets remain.

    python experiments/subset.py --data squad-open --targets 5000 --output squad-5000

Targets are drawn uniformly, but whole pages together (the same title), so that the hard negatives
of a query stay in the corpus.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any


def main() -> None:
    """Read the flags and write the smaller folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="A BEIR folder.")
    parser.add_argument("--output", type=Path, required=True, help="A folder that is not there.")
    parser.add_argument("--targets", type=int, required=True, help="How many targets to keep.")
    parser.add_argument("--most-words", type=int, help="Keep only targets this short.")
    parser.add_argument("--pairs", type=int, help="How many training pairs to keep at most.")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    cut(chosen.data, chosen.output, chosen.targets, chosen.seed, chosen.most_words, chosen.pairs)


def cut(
    data: Path,
    output: Path,
    targets: int,
    seed: int = 0,
    most_words: int | None = None,
    pairs: int | None = None,
) -> None:
    """Write the subset of `data` into `output`."""
    with (data / "corpus.jsonl").open("rb") as lines:
        corpus = [json.loads(line) for line in lines]
    pages: dict[str, list[dict[str, Any]]] = {}
    for record in corpus:
        if most_words is not None and len(record["text"].split()) > most_words:
            continue
        pages.setdefault(record.get("title") or record["_id"], []).append(record)
    order = list(pages)
    random.Random(seed).shuffle(order)
    kept: dict[str, dict[str, Any]] = {}
    for title in order:
        for record in pages[title][: targets - len(kept)]:
            kept[record["_id"]] = record
    asked: set[str] = set()
    (output / "qrels").mkdir(parents=True)
    for file in sorted((data / "qrels").glob("*.tsv")):
        header, *judged = file.read_text("utf-8").splitlines()
        judged = [line for line in judged if line.split("\t")[1] in kept]
        if file.stem == "train" and pairs is not None:
            random.Random(seed).shuffle(judged)
            judged = judged[:pairs]
        asked |= {line.split("\t")[0] for line in judged}
        (output / "qrels" / file.name).write_text("\n".join([header, *judged]) + "\n", "utf-8")
    with (output / "corpus.jsonl").open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(r) + "\n" for r in corpus if r["_id"] in kept)
    with (
        (data / "queries.jsonl").open("rb") as lines,
        (output / "queries.jsonl").open("w", encoding="utf-8") as out,
    ):
        records = (json.loads(line) for line in lines)
        out.writelines(json.dumps(r) + "\n" for r in records if r["_id"] in asked)
    print(f"{len(kept)} targets, {len(asked)} queries of {data}")


if __name__ == "__main__":
    main()
