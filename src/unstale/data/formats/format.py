"""What a format can do, and which files of a folder are which split."""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np

from unstale.data.dataset import RetrievalDataset

_LOG = logging.getLogger(__name__)
_WORDS = "train|dev|validation|valid|val|eval|test"
_SPLIT = re.compile(rf"(?<![a-z])({_WORDS})(?![a-z])")
# A name that says no more than a word: nq-train, train-0, train-00001-of-00003, train_data.
_PLAIN = re.compile(
    rf"(?P<before>.*)(?<![a-z])(?P<word>{_WORDS})"
    r"(?:[-_.]?(?P<shard>\d+)(?P<of>-of-\d+)?(?:-[0-9a-f]{16})?)?"
    r"(?P<after>(?:[-_. ](?:data|dataset|set|split|v\d[\d.]*))*)"
)

# A format that names targets by their texts finds the first of them.
TWINS = "which of several equal texts was judged"


@final
@dataclass(frozen=True)
class Location:
    """Where to read from."""

    place: str  # a file, a folder, or a name that the format knows
    columns: Mapping[str, str] = field(default_factory=dict)  # role: the column that has it
    progress: bool = True
    judged: bool = True  # there must be qrels
    strict: bool = False  # refuse rows that would be skipped

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
    """A way to write queries, targets and judgements down."""

    name: str  # as `--to` and `FORMAT:PATH` call it
    about: str  # what it looks for, in a few words
    fits: Callable[[Location], object]  # what is in this format, by a look at its beginning
    read: Callable[[Location], RetrievalDataset]
    write: Callable[[RetrievalDataset, Path], None] | None  # into an empty folder; None: cannot
    lacks: tuple[str, ...] = ()  # of: ids, query ids, titles, answers, grades, TWINS
    check: Callable[[RetrievalDataset], None] | None = None  # refuses what `write` would refuse
    questions: bool = False  # it has a place for splits with answers and no qrels
    # Names the splits by a look at names and first rows, and refuses what cannot be read.
    splits: Callable[[Location], Collection[str]] | None = None

    def loses(self, dataset: RetrievalDataset) -> list[str]:
        """List what a dataset has that this format has no place for."""
        grades = [grade for qrels in dataset.qrels.values() for grade in np.unique(qrels.grade)]
        has = {
            "titles": dataset.title_ends is not None,
            "answers": dataset.answers is not None,
            "grades": not {0, 1}.issuperset(grades),
            TWINS: TWINS in self.lacks and _judges_a_twin(dataset),
        }
        lost = [what for what in self.lacks if has.get(what, True)]
        unjudged = ", ".join(dataset.questions) if not self.questions else ""
        return [*lost, f"splits without qrels ({unjudged})"] if unjudged else lost


def _judges_a_twin(dataset: RetrievalDataset) -> bool:
    """Tell whether a target is judged whose text stands before it, too."""
    first = dataset.targets.groups
    return any((first[q.target] != q.target).any() for q in dataset.qrels.values())


def splits_of(files: list[Path]) -> dict[str, list[Path]]:
    """Tell the splits by the names of the files; several files may make up one.

    A word for a split tells it, alone or after something, and may be followed by the number of a
    shard. Other names, and those of which several would be one word, are splits of these names: two
    splits must not become one. A name that tells nothing is `train` if it is the only file.

    Example:
        >>> files = splits_of([Path("nq-dev.json"), Path("train-0.json"), Path("train-1.json")])
        >>> {split: [file.name for file in parts] for split, parts in files.items()}
        {'dev': ['nq-dev.json'], 'train': ['train-0.json', 'train-1.json']}
    """
    matches = {file: _PLAIN.fullmatch(file.stem.lower()) for file in files}
    plain: dict[str, list[re.Match[str]]] = {}
    for found in filter(None, matches.values()):
        plain.setdefault(found["word"], []).append(found)
    clear = {word for word, names in plain.items() if _is_one(names)}
    splits: dict[str, list[Path]] = {}
    kept: dict[str, list[str]] = {}  # names that might be taken for a word
    for file, match in matches.items():
        split, word = file.stem, match["word"] if match else split_of(file.stem)
        if match and word in clear:
            split = match["word"]
        elif len(files) == 1 and word in ("train", None):
            split = "train"
        elif word and split != word:
            kept.setdefault(word, []).append(split)
        splits.setdefault(split, []).append(file)
    for word, names in kept.items():
        what = "as splits of these names, not as"
        _LOG.warning("%s: read %s %s", ", ".join(map(repr, names)), what, word)
    return splits


def _is_one(names: list[re.Match[str]]) -> bool:
    """Tell whether names with one word are one file's, or those of shards: test-2019 is none."""
    kinds = {(n["before"], n["after"], n["of"], n["shard"] is None) for n in names}
    whole = names[0]["shard"] is None or names[0]["of"] is not None
    return len(kinds) == 1 and (whole or min(int(n["shard"]) for n in names) <= 1)


def split_of(name: str) -> str | None:
    """Find the word for a split in a name, the last one if there are several."""
    found: list[str] = _SPLIT.findall(name.lower())
    return found[-1] if found else None
