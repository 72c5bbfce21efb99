"""Questions with answers over a corpus: what Algorithm 2 trains on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from torch import Tensor

from unstale.data.dataset import RetrievalDataset
from unstale.data.holdout import draw
from unstale.errors import InputError
from unstale.search.draws import ANSWER, bits


@final
@dataclass(frozen=True)
class QuestionSet:
    """A retrieval dataset whose queries are questions, and the questions of each split.

    Gold targets, where the data has any, are the dataset's qrels: training never sees them.
    """

    dataset: RetrievalDataset
    splits: Mapping[str, Int[ndarray, " q"]]
    taught: Mapping[int, str] = field(default_factory=dict)  # the answer to train on, by row

    @classmethod
    def of(cls, dataset: RetrievalDataset) -> "QuestionSet":
        """Take the questions of each split from its qrels, or from its list of questions."""
        judged = {name: np.unique(q.query) for name, q in dataset.qrels.items()}
        return cls(dataset, judged | {**dataset.questions})

    @property
    def answers(self) -> Sequence[Sequence[str]]:
        """The answers of every question, by row."""
        if self.dataset.answers is None:
            rule = "give them as `metadata.answers` in queries.jsonl"
            raise InputError(f"{self.dataset.name} has no answers; {rule}")
        return self.dataset.answers

    @property
    def counts(self) -> dict[str, int | str]:
        """Count targets and the questions of each split."""
        counts = self.dataset.counts
        return counts | {f"{name}_questions": len(rows) for name, rows in self.splits.items()}

    def texts(self) -> Iterator[str]:
        """Yield all texts: questions, targets and answers."""
        for column in (self.dataset.queries, self.dataset.targets):
            for _, chunk in column.chunks(4096):
                yield from chunk
        for answers in self.answers:
            yield from answers

    def rows(self, split: str) -> Int[ndarray, " q"]:
        """Return the questions of a split; each must have an answer that says something."""
        if split not in self.splits:
            name = self.dataset.name
            raise InputError(
                f"{name} has no split {split!r}; it has {', '.join(sorted(self.splits))}"
            )
        rows = self.splits[split]
        if not len(rows):
            raise InputError(f"{self.dataset.name}: the split {split!r} has no questions")
        for row in rows.tolist():
            if not any(answer.strip() for answer in self.answers[row]):
                where = f"{self.dataset.name}, {split}, question {self.dataset.query_ids[row]!r}"
                text = self.dataset.queries[row][:100]
                raise InputError(f"{where} ({text!r}): no answer that says something")
        return rows

    def hold_out(self, split: str, share: float, *, progress: bool = True) -> "QuestionSet":
        """Return the set with a split to measure on, taken out of `train` if there is none.

        Questions are drawn by a hash of their text, as `hold_out` does for a retrieval dataset.
        Only `test` and `dev` can be held out.
        """
        if split in self.splits or split not in ("test", "dev") or not share:
            return self  # there, or refused when its rows are asked for
        dataset = self.dataset
        drawn = draw(dataset, self.rows("train"), share, [split], progress=progress)
        gold = dataset.qrels.get("train")
        parts = {} if gold is None else {s: gold.of(rows) for s, rows in drawn.items()}
        held = replace(dataset, qrels={**dataset.qrels, **parts}, held_out=(split,))
        return replace(self, dataset=held, splits={**self.splits, **drawn})

    def choose_answers(self, rows: Int[Tensor, " b"], seed: int, step: int) -> list[str]:
        """Take one of each question's answers; which depends on (seed, step, question) only.

        Where the data names one to train on, it is that one, as FiD trains on TriviaQA.
        """
        random = bits(ANSWER, seed, step, rows, torch.zeros_like(rows[:1]))[:, 0]
        several = [
            [self.taught[row]]
            if row in self.taught
            else [a for a in self.answers[row] if a.strip()]
            for row in rows.cpu().tolist()
        ]
        return [a[r % len(a)] for a, r in zip(several, random.tolist(), strict=True)]
