"""Files made up for a test, and what was read of them."""

import json
from pathlib import Path

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.walk import examples


def write(path: Path, *records: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def only(dataset: RetrievalDataset, split: str = "train") -> tuple[str, list[str], list[str]]:
    (example,) = examples(dataset, split)
    sides = ([t.joined for t in side] for side in (example.positives, example.negatives))
    return (example.query, *sides)
