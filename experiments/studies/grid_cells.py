"""What is a cell of a grid made of, and may a finished one of another folder stand for it?

A long grid can be trained in parts: each part is a run of the study with some of its variants or
seeds, in a folder of its own. A last run takes their cells over and makes the table of all.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError
from unstale.files import atomic_folder, write_json
from unstale.training.cells import CELL
from unstale.training.settings import TrainSettings

MADE_OF = "made_of.json"


def made_of(
    dataset: RetrievalDataset, model: str, encoder: Mapping[str, Any], settings: TrainSettings
) -> dict[str, Any]:
    """Describe what a cell's results depend on: the data, the encoder and the settings."""
    pairs = sha256()
    for split in ("train", settings.eval_split):
        pairs.update(dataset.split(split).pairs.tobytes())
    left_out = {f.name for f in fields(settings) if f.metadata.get("local")}
    values = {name: v for name, v in asdict(settings).items() if name not in left_out}
    found = {
        "targets": dataset.targets.digest,
        "queries": dataset.queries.digest,
        "pairs": pairs.hexdigest(),
        "model": Path(model).name,
        "encoder": dict(encoder),
        "settings": values,
    }
    found_as_read: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return found_as_read


def describe_cell(folder: Path, made: Mapping[str, Any]) -> None:
    """Write what a cell was made of into its folder."""
    write_json(folder / MADE_OF, dict(made))


def take_over(folder: Path, others: Sequence[Path], made: Mapping[str, Any]) -> bool:
    """Copy a finished cell of another run, unless the cell is finished; tell whether one was.

    One that was made of something else is refused, and what differs is named.
    """
    if (folder / CELL).exists():
        return False
    for other in others:
        if not (other / CELL).exists():
            continue
        path = other / MADE_OF
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        if unlike := _differences(found, made):
            raise InputError(f"the cell {other} was made of something else: {'; '.join(unlike)}")
        with atomic_folder(folder) as copy:
            for file in other.iterdir():
                if file.is_file():
                    shutil.copy2(file, copy / file.name)
        return True
    return False


def _differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Name what differs, setting by setting."""
    unlike = []
    for key, value in expected.items():
        other = found.get(key)
        if key == "settings" and isinstance(other, dict):
            names = [n for n in value if other.get(n) != value[n]]
            unlike += [f"{n} is {other.get(n)!r} there and {value[n]!r} here" for n in names]
        elif other != value:
            unlike.append(f"{key} is {other!r} there and {value!r} here")
    return unlike
