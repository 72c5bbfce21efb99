"""Made-up miniatures of the sets that the paper trains on, in the layout of the real files.

Towns have rivers, and every passage tells one thing of one town, so that a question has one gold
passage, others that hold the answer too, and others of the same town.
"""

import csv
import json
from pathlib import Path

TOWNS = [f"{a}{b}" for a in ("nor", "sul", "vel", "kar", "tom", "lin") for b in
         ("bek", "dorf", "mar", "sted", "wick", "ham", "ton", "vale")]  # fmt: skip
TRAIN, DEV = 24, 36  # the towns before these are asked for in train and in dev, the others in test


def _river(town: str) -> str:
    return f"{town[::-1]} water"


def _passages() -> list[tuple[str, str, str]]:
    """Return `(id, text, title)`: of each town the gold passage, a companion, and two others."""
    made = []
    for town in TOWNS:
        title, river = town.title(), _river(town)
        texts = [
            f'The river of {town} is called "{river}", and it is deep.',
            f"Boats on the {river} carry bread.",
            f"The castle of {town} is old and has seven towers.",
            f"People of {town} like the violin in winter.",
        ]
        made += [(text, title) for text in texts]
    return [(str(i), text, title) for i, (text, title) in enumerate(made, 1)]


def _asked(town: str) -> str:
    return f"which stream flows through {town}"


def corpus(folder: Path) -> None:
    """Write psgs_w100.tsv."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "psgs_w100.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([("id", "text", "title"), *_passages()])


def nq(folder: Path) -> Path:
    """Write DPR's files of Natural Questions: two of gold passages, and questions with answers."""
    corpus(folder)
    passages = [{"title": t, "text": x, "passage_id": i} for i, x, t in _passages()]

    def record(place: int) -> dict[str, object]:
        gold, companion, castle, violin = passages[4 * place : 4 * place + 4]
        return {
            "dataset": "nq", "question": _asked(TOWNS[place]), "answers": [_river(TOWNS[place])],
            "positive_ctxs": [gold | {"score": 1000, "title_score": 1}, companion],
            "hard_negative_ctxs": [castle], "negative_ctxs": [violin],
        }  # fmt: skip

    for split, places in (("train", range(TRAIN)), ("dev", range(TRAIN, DEV))):
        records = [record(place) for place in places]
        (folder / f"biencoder-nq-{split}.json").write_text(json.dumps(records, indent=4))
    for split, towns in (("dev", TOWNS[TRAIN:DEV]), ("test", TOWNS[DEV:])):
        with (folder / f"nq-{split}.qa.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerows((_asked(t), repr([_river(t), "no such river"])) for t in towns)
    return folder


def msmarco(folder: Path) -> Path:
    """Write MS MARCO's passage ranking files; queries.eval.small.tsv has no qrels, as published."""
    folder.mkdir(parents=True)
    lines = [f"{int(i) - 1}\t{text}" for i, text, _ in _passages()]
    (folder / "collection.tsv").write_text("\n".join(lines) + "\n")
    parts = {"train": (0, TRAIN), "dev.small": (TRAIN, DEV), "eval.small": (DEV, len(TOWNS))}
    for split, (start, stop) in parts.items():
        queries = [f"{1000 + i}\t{_asked(TOWNS[i])}" for i in range(start, stop)]
        (folder / f"queries.{split}.tsv").write_text("\n".join(queries) + "\n")
        if split != "eval.small":
            judged = [f"{1000 + i}\t0\t{4 * i}\t1" for i in range(start, stop)]
            (folder / f"qrels.{split}.tsv").write_text("\n".join(judged) + "\n")
    return folder


def qa(folder: Path, name: str) -> Path:
    """Write the questions of NQ-open, TriviaQA or HotPotQA, as published, beside a corpus."""
    corpus(folder)
    sides = [TOWNS[:TRAIN], TOWNS[TRAIN:DEV]]
    if name == "nq":
        for split, towns in zip(("train", "dev"), sides, strict=True):
            records = [{"question": _asked(t), "answer": [_river(t)]} for t in towns]
            text = "".join(json.dumps(record) + "\n" for record in records)
            (folder / f"NQ-open.{split}.jsonl").write_text(text)
    elif name == "tqa":
        for split, towns in zip(("train", "dev"), sides, strict=True):
            data = [
                {"Question": _asked(t), "QuestionId": f"tc_{t}", "QuestionSource": "made up",
                 "Answer": {"Value": _river(t), "Aliases": [_river(t), t[::-1]]}}
                for t in towns
            ]  # fmt: skip
            whole = {"Data": data, "Domain": "Web", "Split": split, "Version": 1.0}
            (folder / f"unfiltered-web-{split}.json").write_text(json.dumps(whole))
    else:
        for file, towns in zip(("train_v1.1", "dev_fullwiki_v1"), sides, strict=True):
            records = [
                {"_id": t, "question": _asked(t), "answer": _river(t), "type": "bridge",
                 "level": "hard", "supporting_facts": [[t.title(), 0]],
                 "context": [[t.title(), [f"A river: {_river(t)}."]], ["Other", ["Nothing."]]]}
                for t in towns
            ]  # fmt: skip
            (folder / f"hotpot_{file}.json").write_text(json.dumps(records))
    return folder
