"""From texts and judgements, read one by one in any format, to a dataset."""

import logging
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, final

import numpy as np

from unstale.data.dataset import Qrels, RetrievalDataset
from unstale.data.lines import Record, identifier, show, string
from unstale.data.rows import Rows
from unstale.errors import InputError

Judged = tuple[int, str, str, str | int]  # line, query id, target id, grade
_LOG = logging.getLogger(__name__)


class Target(NamedTuple):
    """A target as a file has it; the text may be missing where an id names one of the corpus."""

    id: str | None
    title: str
    text: str | None

    @property
    def joined(self) -> str:
        """Return title and text in one, as BEIR joins them."""
        return f"{self.title} {self.text or ''}".strip()


class Example(NamedTuple):
    """A query with the targets that are judged for it, as most files of training data have it."""

    id: str | None
    query: str
    positives: list[Target]
    negatives: list[Target]
    answers: Sequence[str] = ()
    others: Sequence[Target] = ()  # of the corpus, and not judged
    taught: str | None = None  # the one answer to train on, where a file names it


@final
class Gatherer:
    """Collect targets, queries and judgements; then make a dataset of them.

    Memory: 40 to 64 bytes for each text and 32 for each judgement. The texts themselves go to a
    file once they are many.
    """

    def __init__(self) -> None:
        self.targets = Rows("t")
        self.queries = Rows("q")
        self._title_ends = array("q")
        self._answers: list[Sequence[str]] = []
        # Of each split: query, target, grade, and line of its qrels file, if it has one.
        self._judged: dict[str, tuple[array[int], ...]] = {}
        self._files: dict[str, str] = {}
        self._questions: dict[str, list[int]] = {}  # of splits without qrels
        self._starts: dict[str, int] = {}  # of each split with its own list of queries: a row
        self._renamed: dict[str, int] = {}  # SPLIT/ID of queries in such lists, called so now
        self._odd: Counter[str] = Counter()  # warnings, logged at the end

    def corpus(self, target: Target, where: str, *, by_text: bool = False) -> None:
        """Add a target of the corpus file, to be found by its id, or by its text."""
        joined, title = _join(target, where)
        self._title_ends.append(title)
        self.targets.add(joined, target.id, where, by_text=by_text)

    def target(self, target: Target, where: str) -> int:
        """Find a target that an example names, by its id or its text, or add it."""
        if target.text is None:
            row = self.targets.find(target.id or "")
            if row is None:
                raise InputError(f"{where}: no target in the corpus has the id {show(target.id)}")
            return row
        joined, title = _join(target, where)
        key = joined.encode() if target.id is None else target.id
        row = self.targets.find(key)
        if row is None:
            self._title_ends.append(title)
            return self.targets.add(joined, target.id, where)
        if not self.targets.has(row, joined):
            self._odd["targets repeat an id with another text, the first counts"] += 1
        return row

    def _query(
        self, split: str, text: str, where: str, id: str | None, answers: Sequence[str]
    ) -> tuple[int, int | None]:
        """Find a query or add it; return its row, and that of another which has its id, if any."""
        if not text.strip():
            raise InputError(f"{where}: the query is empty")
        key = text.encode() if id is None else id
        row, other = self.queries.find(key), None
        if row is not None and id is not None and not self.queries.has(row, text):
            other = row
            # Many sets number the queries of each split from 0.
            self._odd["query ids mean another text than in an earlier split, now SPLIT/ID"] += 1
            key = id = f"{split}/{id}"
            row = self.queries.find(key)
            if row is not None and not self.queries.has(row, text):
                raise InputError(f"{where}: the query id {show(id)} had another text before")
        if row is None:
            row = self.queries.add(text, id, where)
            self._answers.append(answers or ())
        return row, other

    def listed_query(self, split: str, text: str, where: str, id: str) -> None:
        """Add a query of a split's own list, where each id must mean one text."""
        start = self._starts.setdefault(split, len(self.queries))
        row, other = self._query(split, text, where, id, ())
        if other is None:
            return
        if other >= start or self._renamed.setdefault(f"{split}/{id}", row) != row:
            raise InputError(f"{where}: the query id {show(id)} had another text before")

    def new_query(self, text: str, id: str, where: str, answers: Sequence[str] = ()) -> int:
        """Add a query whose id must be new."""
        if not text.strip():
            raise InputError(f"{where}: the query {show(id)} is empty")
        self._answers.append(answers or ())
        return self.queries.add(text, id, where)

    def question(self, split: str, text: str, answers: Sequence[str], where: str) -> None:
        """Add a query of a split that has answers and no qrels."""
        rows = self._questions.setdefault(split, [])
        rows.append(self.new_query(text, f"{split}-{len(rows)}", where, answers))

    def judge(self, split: str, query: int, target: int, grade: int, line: int = 0) -> None:
        """Record a judgement: relevant if the grade is above 0."""
        if split not in self._judged:
            self._judged[split] = tuple(array("q") for _ in range(4))
        for column, value in zip(self._judged[split], (query, target, grade, line), strict=True):
            column.append(value)

    def judge_lines(self, split: str, file: str, lines: Iterable[Judged]) -> None:
        """Record the lines of a qrels file; of equal query ids, that of the same split is meant."""
        self._files[split] = file
        for line, query, target, grade in lines:
            row = self._renamed.get(f"{split}/{query}", self.queries.find(query))
            column = self.targets.find(target)
            if row is None or column is None:
                what, id = ("query", query) if row is None else ("target", target)
                raise InputError(f"{file}:{line}: there is no {what} with the id {show(id)}")
            try:
                value = int(np.int32(int(grade)))  # what trec_eval has room for
            except (ValueError, OverflowError):
                rule = "a grade is a whole number below 2^31"
                raise InputError(f"{file}:{line}: {rule}, found {show(grade)}") from None
            self.judge(split, row, column, value, line)

    def example(self, split: str, example: Example, where: str) -> None:
        """Add a query with its judged targets; negatives are judged with a grade of 0."""
        row, _ = self._query(split, example.query, where, example.id, example.answers)
        for grade, targets in ((1, example.positives), (0, example.negatives)):
            for target in targets:
                self.judge(split, row, self.target(target, where), grade)
        for target in example.others:
            self.target(target, where)

    def dataset(self, name: str, *, judged: bool = True, asked: bool = True) -> RetrievalDataset:
        """Return everything as a dataset.

        Unless `judged`, a split may have no relevant pair; unless `asked`, there may be no query.

        In examples, a target that is both positive and negative for a query is positive. A qrels
        file that contradicts itself is refused.
        """
        for what, count in self._odd.items():
            _LOG.warning("%s: %d %s", name, count, what)
        if not len(self.targets) or (asked and not len(self.queries)):
            counts = f"{len(self.targets)} targets and {len(self.queries)} queries"
            raise InputError(f"{name} holds {counts}: there is nothing to train or search")
        qrels = {split: self._qrels(split, name, judged) for split in self._judged}
        ends = np.frombuffer(self._title_ends, np.int64)
        return RetrievalDataset(
            name,
            *self.targets.finish(),
            *self.queries.finish(),
            qrels,
            answers=self._answers if any(self._answers) else None,
            title_ends=ends if ends.any() else None,
            questions={split: np.array(rows) for split, rows in self._questions.items()},
        )

    def _qrels(self, split: str, name: str, judged: bool) -> Qrels:
        """Keep each pair of a split once."""
        file = self._files.get(split)
        query, target, grade, line = (np.frombuffer(c, np.int64) for c in self._judged[split])
        pair = query * len(self.targets) + target
        _, first, place = np.unique(pair, return_index=True, return_inverse=True)
        contradictions = line[grade != grade[first[place]]]  # of an earlier judgement
        if len(contradictions) and file is not None:
            raise InputError(f"{file}:{contradictions[0]}: this pair was judged before, otherwise")
        if len(contradictions):
            what = "targets are both positive and negative for a query: positive"
            _LOG.warning("%s, split %s: %d %s", name, split, len(contradictions), what)
        best = np.full(len(first), np.iinfo(np.int64).min)
        np.maximum.at(best, place, grade)
        if judged and not (best > 0).any():
            raise InputError(f"{file or f'{name}: the split {split}'} holds no relevant pair")
        keep = np.sort(first)
        return Qrels(query[keep], target[keep], best[place[keep]])


def parse_target(record: Record, where: str, *id_keys: str) -> Target:
    """Make a target of a record with `title` and `text`; its id is the first that there is."""
    ids = (identifier(record, key, where) for key in id_keys)
    title = string(record, "title", where) if record.get("title") else ""
    id = next((id for id in ids if id is not None), None)
    return Target(id, title, string(record, "text", where))


def gather(
    examples: Iterable[tuple[str, str, Example]],
    corpus: Iterable[tuple[str, Target]] = (),
    *,
    by_text: bool = False,
) -> Gatherer:
    """Collect `(where, target)` of the corpus, if there is one, then `(split, where, example)`.

    `by_text`: the examples name their targets by text, and not by id.
    """
    gatherer = Gatherer()
    for where, target in corpus:
        gatherer.corpus(target, where, by_text=by_text)
    for split, where, example in examples:
        gatherer.example(split, example, where)
    return gatherer


def _join(target: Target, where: str) -> tuple[str, int]:
    """Return title and text in one, and where the title ends."""
    joined = target.joined
    if not joined:
        raise InputError(f"{where}: the target {show(target.id)} has an empty text")
    return joined, min(len(target.title.lstrip()), len(joined))
