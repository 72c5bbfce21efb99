"""What is searched, what is asked, and which target answers which query."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int
from numpy import ndarray

from unstale.errors import InputError

_FOUND_AT_ONCE = 2**20  # rows that are looked through at a time


@final
class Texts(Sequence[str]):
    """Hold many texts compactly (Arrow, no Python object a text), addressed by row number.

    Example:
        >>> texts = Texts.of(["a query", "another"])
        >>> len(texts), texts[1], texts.take([1, 0])
        (2, 'another', ['another', 'a query'])
    """

    def __init__(self, array: pa.ChunkedArray) -> None:
        self._array = array

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Texts":
        """Copy Python strings into Arrow memory."""
        return cls(pa.chunked_array([pa.array(texts, pa.large_string())]))

    @property
    def column(self) -> pa.ChunkedArray:
        """Return the texts as Arrow holds them, to write them to a file."""
        return self._array

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(texts for _, texts in self.chunks(4096))

    def __getitem__(self, row: int) -> str:  # type: ignore[override]
        return self._array[int(row)].as_py()

    def take(self, rows: Sequence[int] | Int[ndarray, " n"]) -> list[str]:
        """Return the texts of several rows, in the order asked for."""
        # Arrow's own `take` would first copy the chunks of the whole corpus into one.
        return [self._array[row].as_py() for row in np.asarray(rows, np.int64).tolist()]

    def chunks(self, size: int) -> Iterator[tuple[int, list[str]]]:
        """Yield `(first row, texts)` over all rows, `size` at a time."""
        for start in range(0, len(self), size):
            yield start, self._array.slice(start, size).to_pylist()

    def find(self, texts: Sequence[str]) -> Int[ndarray, " n"]:
        """Return the row of each text, or -1 if there is none; of ids, which all differ.

        Example:
            >>> Texts.of(["a", "b", "c"]).find(["c", "d", "c"]).tolist()
            [2, -1, 2]
        """
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        rows = np.full(len(place), -1)
        wanted = pc.SetLookupOptions(value_set=pa.array(place, pa.large_string()))
        for start in range(0, len(self), _FOUND_AT_ONCE):
            found = pc.index_in(self._array.slice(start, _FOUND_AT_ONCE), options=wanted)
            rows[found.drop_null().to_numpy()] = start + np.flatnonzero(found.is_valid())
        return rows[[place[text] for text in texts]]

    def rows_in(self, others: "Texts") -> Int[ndarray, " n"]:
        """Return for each of these texts its first row among others, or -1 if there is none."""
        if not len(self) or not len(others):
            return np.full(len(self), -1)
        options = pc.SetLookupOptions(value_set=others.column.combine_chunks())
        return pc.index_in(self._array, options=options).fill_null(-1).to_numpy().astype(np.int64)

    @cached_property
    def digest(self) -> str:
        """Hash all texts, in order."""
        whole = hashlib.sha256()
        for data in map(str.encode, self):
            whole.update(len(data).to_bytes(8, "little") + data)  # no text runs into the next
        return whole.hexdigest()

    @cached_property
    def groups(self) -> Int[ndarray, " n"]:
        """Number each row by the first row that has the same text: duplicates share a number.

        Only texts with equal hashes are compared, so that no copy of the corpus is made.
        """
        hashes = np.fromiter(map(hash, self), np.int64, len(self))
        order = hashes.argsort(kind="stable")
        hashes = hashes[order]
        again = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
        alike = np.union1d(again - 1, again)
        groups, first, last = np.arange(len(self)), dict[str, int](), None
        for row, own in zip(order[alike].tolist(), hashes[alike].tolist(), strict=True):
            first = first if own == last else {}  # of texts with the same hash
            groups[row], last = first.setdefault(self[row], row), own
        return groups


@final
@dataclass(frozen=True)
class Qrels:
    """Judgements of one split: (query row, target row, grade), relevant if the grade is above 0.

    Hard negatives that the data came with are judgements with a grade of 0.
    """

    query: Int[ndarray, " m"]
    target: Int[ndarray, " m"]
    grade: Int[ndarray, " m"]

    def take(self, some: Bool[ndarray, " m"]) -> "Qrels":
        """Keep some of the judgements."""
        return Qrels(self.query[some], self.target[some], self.grade[some])

    @cached_property
    def pairs(self) -> Int[ndarray, "p 2"]:
        """List the relevant (query row, target row) pairs."""
        return np.stack([self.query, self.target], axis=1)[self.grade > 0]

    @cached_property
    def negatives(self) -> Int[ndarray, "p 2"]:
        """List the (query row, target row) pairs that are judged not relevant, in their order."""
        return np.stack([self.query, self.target], axis=1)[self.grade <= 0]

    @cached_property
    def query_rows(self) -> Int[ndarray, " q"]:
        """List the queries that have at least one relevant target."""
        return np.unique(self.pairs[:, 0])

    def of(self, queries: Int[ndarray, " q"]) -> "Qrels":
        """Return the judgements of some queries."""
        return self.take(np.isin(self.query, queries))


@final
@dataclass(frozen=True)
class RetrievalDataset:
    """A corpus of targets, queries, and qrels by split; answers where the data has them.

    Everything is addressed by row number: a target's row is its place in the corpus (and in the
    buffer), a query's row its place in `queries`. Ids appear only in files.

    Attributes:
        name: What reports call the data.
        target_ids: The id of each target.
        targets: The text of each target. It begins with the title, if there is one.
        query_ids: The id of each query.
        queries: The text of each query.
        qrels: The judgements of each split, e.g. `qrels["train"].pairs`: (query row, target row).
        answers: The accepted answers of each query, for `unstale rag`.
        title_ends: After how many characters a target's title ends; 0 if it has none.
        questions: The queries of splits without qrels, which are measured by their answers alone.
        skipped: How many rows of the file were left out, by reason.
        held_out: The splits that were taken out of `train` because the data had none.
        source: The name that `load_dataset` was given.
    """

    name: str
    target_ids: Texts
    targets: Texts
    query_ids: Texts
    queries: Texts
    qrels: Mapping[str, Qrels]
    answers: Sequence[Sequence[str]] | None = None
    title_ends: Int[ndarray, " n"] | None = None
    questions: Mapping[str, Int[ndarray, " q"]] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    held_out: Sequence[str] = ()
    source: str = ""

    def split(self, name: str) -> Qrels:
        """Return the qrels of a split, or say which splits there are."""
        if name in self.questions:
            raise InputError(f"{self.name}: the split {name!r} has answers, and no qrels")
        if name not in self.qrels:
            known = ", ".join(sorted([*self.qrels, *self.questions]))
            raise InputError(f"{self.name} has no split {name!r}; it has {known}")
        return self.qrels[name]

    @cached_property
    def identity(self) -> dict[str, str]:
        """Return digests of all that results depend on: targets, queries, grades, answers."""
        qrels = hashlib.sha256()
        for split, judged in sorted(self.qrels.items()):
            qrels.update(f"{split}\0{len(judged.query)}\0".encode())
            for column in (judged.query, judged.target, judged.grade):
                qrels.update(np.ascontiguousarray(column, np.int64).tobytes())
        found = {"targets": self.targets.digest, "queries": self.queries.digest}
        found["qrels"] = qrels.hexdigest()
        if self.answers is not None:
            answers = json.dumps([list(known) for known in self.answers])
            found["answers"] = hashlib.sha256(answers.encode()).hexdigest()
        return found

    def query_rows(self, split: str) -> Int[ndarray, " q"]:
        """List the queries of a split that can be measured, by a relevant target or an answer."""
        return self.questions[split] if split in self.questions else self.split(split).query_rows

    def with_targets(
        self, rows: Int[ndarray, " m"], qrels: Mapping[str, Qrels] | None = None
    ) -> "RetrievalDataset":
        """Keep some targets, in the order of `rows`, and the judgements that name one of them."""
        place = np.full(len(self.targets), -1, np.int64)
        place[rows] = np.arange(len(rows))
        judged = {
            split: found.take(place[found.target] >= 0)
            for split, found in (self.qrels if qrels is None else qrels).items()
        }
        return replace(
            self,
            target_ids=Texts.of(self.target_ids.take(rows)),
            targets=Texts.of(self.targets.take(rows)),
            qrels={s: replace(found, target=place[found.target]) for s, found in judged.items()},
            title_ends=None if self.title_ends is None else self.title_ends[rows],
        )

    def bodies(self, rows: Sequence[int] | Int[ndarray, " n"]) -> list[str]:
        """Return the texts of some targets without their titles."""
        texts = self.targets.take(rows)
        if self.title_ends is None:
            return texts
        ends = self.title_ends[np.asarray(rows, np.int64)].tolist()
        return [text[end + 1 :] if end else text for text, end in zip(texts, ends, strict=True)]

    @property
    def counts(self) -> dict[str, int | str]:
        """Count targets, queries, pairs by split and targets whose text stands elsewhere too."""
        groups = self.targets.groups
        duplicates = int((groups != np.arange(len(groups))).sum())
        counts: dict[str, int | str] = {"name": self.name, "targets": len(self.targets)}
        counts |= {"queries": len(self.queries), "duplicate_texts": duplicates}
        if self.skipped:
            counts["skipped_rows"] = sum(self.skipped.values())
        if self.held_out:
            counts["held_out"] = ", ".join(self.held_out)
        counts |= {f"{split}_pairs": len(q.pairs) for split, q in self.qrels.items()}
        return counts | {f"{split}_questions": len(q) for split, q in self.questions.items()}


@final
class ByQuery:
    """Look up the rows that (query row, target row) pairs, in any order, give each query."""

    def __init__(self, pairs: Int[ndarray, "p 2"], queries: int) -> None:
        distinct = np.unique(pairs, axis=0)
        self._rows = distinct[:, 1]
        self._starts = np.searchsorted(distinct[:, 0], np.arange(queries + 1))

    @property
    def most(self) -> int:
        """Return how many rows the query with the most has."""
        return int(np.diff(self._starts).max(initial=0))

    def __call__(self, queries: Int[ndarray, " b"]) -> Int[ndarray, "b p"]:
        """Return the rows of each query, padded with -1 on the right."""
        starts, ends = self._starts[queries], self._starts[queries + 1]
        width = max(1, int((ends - starts).max(initial=0)))
        index = starts[:, None] + np.arange(width)
        inside = index < ends[:, None]
        if not len(self._rows):
            return np.full(index.shape, -1, np.int64)
        return np.where(inside, self._rows[np.minimum(index, len(self._rows) - 1)], -1)


@final
class Positives:
    """Look up the rows that must never be a query's negatives.

    Those are its relevant targets in any of the splits, and every target with the same text.
    """

    def __init__(self, dataset: RetrievalDataset, splits: Sequence[str]) -> None:
        groups = dataset.targets.groups
        pairs = np.concatenate([dataset.split(s).pairs for s in splits])
        twins = np.flatnonzero(groups != np.arange(len(groups)))
        order = np.unique(np.concatenate([twins, groups[twins], pairs[:, 1]]))
        order = order[np.argsort(groups[order], kind="stable")]  # rows of one text side by side
        starts = np.searchsorted(groups[order], groups[pairs[:, 1]], side="left")
        lengths = np.searchsorted(groups[order], groups[pairs[:, 1]], side="right") - starts
        offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = order[np.repeat(starts, lengths) + offset]
        closure = np.stack([np.repeat(pairs[:, 0], lengths), rows], axis=1)
        self._rows = ByQuery(closure, len(dataset.queries))

    def __call__(self, queries: Int[ndarray, " b"]) -> Int[ndarray, "b p"]:
        """Return the rows of each query, padded with -1 on the right."""
        return self._rows(queries)
