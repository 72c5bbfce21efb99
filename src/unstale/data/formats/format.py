"""What a format can do, and which files of a folder are which split."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np

from unstale.data.dataset import RetrievalDataset

_LOG = logging.getLogger(__name__)
_SPLIT = re.compile(r"(?<![a-z])(train|dev|validation|valid|val|eval|test)(?![a-z])")

# A format that names targets by their texts finds the first of them.
TWINS = "which of several equal texts was judged"


@final
@dataclass(frozen=True)
class Source:
    """Where to read from.

    Args:
        place: A file, a folder, or a name that the format knows.
        columns: For rows with columns: which column has the role of `query`, `positive`, ...
        progress: Show a bar.
        judged: There must be qrels.
    """

    place: str
    columns: Mapping[str, str] = field(default_factory=dict)
    progress: bool = True
    judged: bool = True

    @property
    def path(self) -> Path:
        """Return the place as a path."""
        return Path(self.place)

    @property
    def name(self) -> str:
        """Return what a dataset read from here is called."""
        path = self.path.resolve()
        return path.name if path.is_dir() else path.stem

    def files(self, *suffixes: str) -> list[Path]:
        """List the file, or the folder's own files, that have one of some suffixes."""
        inside = sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]
        return [file for file in inside if file.suffix in suffixes and file.is_file()]

    def beside(self, name: str) -> Path | None:
        """Return a file of the folder, if it is there."""
        file = self.path / name
        return file if file.is_file() else None

    def corpus(self, name: str) -> Path | None:
        """Return the corpus of the folder; say that one beside a lone file is not read."""
        near = self.path.with_name(name)
        if self.path.is_file() and near.is_file():
            rule = "name their folder to read both"
            _LOG.warning("%s lies beside %s and is not read: %s", near, self.path.name, rule)
        return self.beside(name)


@final
@dataclass(frozen=True)
class Format:
    """A way to write queries, targets and judgements down.

    Args:
        name: As `--to` and `FORMAT:PATH` call it.
        about: What it looks for, in a few words.
        fits: Tells whether something is in this format, by a look at its beginning.
        read: Reads it all.
        write: Writes a dataset into an empty folder; None if that is not possible.
        lacks: What it has no place for: ids, query ids, titles, answers, grades, twins.
        check: Refuses a dataset that `write` would refuse; None if it writes any.
    """

    name: str
    about: str
    fits: Callable[[Source], bool]
    read: Callable[[Source], RetrievalDataset]
    write: Callable[[RetrievalDataset, Path], None] | None
    lacks: tuple[str, ...] = ()
    check: Callable[[RetrievalDataset], None] | None = None

    def loses(self, dataset: RetrievalDataset) -> list[str]:
        """List what a dataset has that this format has no place for."""
        grades = [grade for qrels in dataset.qrels.values() for grade in np.unique(qrels.grade)]
        has = {
            "titles": dataset.title_ends is not None,
            "answers": dataset.answers is not None,
            "grades": not {0, 1}.issuperset(grades),
            TWINS: TWINS in self.lacks and _judges_a_twin(dataset),
        }
        return [what for what in self.lacks if has.get(what, True)]


def _judges_a_twin(dataset: RetrievalDataset) -> bool:
    """Tell whether a target is judged whose text stands before it, too."""
    first = dataset.targets.groups
    return any((first[q.target] != q.target).any() for q in dataset.qrels.values())


def splits_of(files: list[Path]) -> dict[str, list[Path]]:
    """Tell the splits by the names of the files; several files may make up one.

    A name that tells nothing is the split `train` if it is the only file.

    Example:
        >>> files = splits_of([Path("nq-dev.json"), Path("train-0.json"), Path("train-1.json")])
        >>> {split: [file.name for file in parts] for split, parts in files.items()}
        {'dev': ['nq-dev.json'], 'train': ['train-0.json', 'train-1.json']}
    """
    splits: dict[str, list[Path]] = {}
    for file in files:
        split = split_of(file.stem) or ("train" if len(files) == 1 else file.stem)
        splits.setdefault(split, []).append(file)
    return splits


def split_of(name: str) -> str | None:
    """Find the word for a split in a name, the last one if there are several."""
    found: list[str] = _SPLIT.findall(name.lower())
    return found[-1] if found else None
