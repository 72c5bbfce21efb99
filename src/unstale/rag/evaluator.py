"""Answer the questions of a split with the retriever and reader as they are, and judge."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from tqdm import tqdm

from unstale.data.answers import exact_match, f1
from unstale.data.tokens import TokenStore
from unstale.distributed import exchange, share
from unstale.encoders.embed import evaluating
from unstale.evaluation.by_answer import answer_recall, first_answers
from unstale.evaluation.metrics import means, measure
from unstale.evaluation.retrieve import fresh_chunks, retrieve
from unstale.files import atomic_file, write_json
from unstale.rag.answering import answer
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader
from unstale.rag.settings import RagSettings
from unstale.search.best import TopK
from unstale.training.settings import Checked

_DEPTH = 100  # targets retrieved for each question, if the reader does not see more
_PAIRS = 64  # (question, target) pairs that the reader encodes at once


@final
class RagEvaluator:
    """Measure exact match, F1, answer recall, and recall where gold targets are known.

    `answer_recall` is the share of questions with an answer in one of the k targets that the
    reader sees, `answer_recall@10` in the first 10.
    """

    def __init__(
        self,
        questions: QuestionSet,
        tokens: TokenStore,
        reader: Reader,
        checked: Checked[RagSettings],
        *,
        progress: bool = True,
    ) -> None:
        settings = checked.settings
        self.split, self.fusion = settings.eval_split, settings.fusion
        self.k, self.scale = checked.counts.hard, checked.scale
        self.reader = reader
        self.gold = 0  # questions that have gold targets
        self.values: dict[str, Float[ndarray, " q"]] = {}
        self.answers: list[dict[str, Any]] = []
        self._questions, self._tokens, self._progress = questions, tokens, progress
        rows = questions.rows(self.split)
        if 0 < settings.eval_questions < len(rows):
            rows = np.random.default_rng(0).permutation(rows)[: settings.eval_questions]
        self.rows: Int[ndarray, " q"] = np.sort(rows)

    def __call__(
        self,
        model: SentenceTransformer,
        corpus: Iterable[tuple[int, Float[Tensor, "n d"]]] | None = None,
        *,
        read: bool = True,
    ) -> dict[str, float]:
        """Return the mean of every metric; without `read`, of the retrieval only."""
        self.values = {}
        found = None
        if self.k:
            if corpus is None:
                corpus = fresh_chunks(model, self._tokens, progress=self._progress)
            depth = max(_DEPTH, self.k)
            dataset = self._questions.dataset
            # A question is no target: the rule that leaves out the target of its id is for queries.
            found = retrieve(model, dataset, self.rows, corpus, k=depth, own=True)
            self._measure_retrieval(found)
        if read:
            written = self._answer(found)
            golds = [self._questions.answers[row] for row in self.rows.tolist()]
            judged = list(zip(written, golds, strict=True))
            self.values = {
                "exact_match": np.array([exact_match(a, g) for a, g in judged]),
                "f1": np.array([f1(a, g) for a, g in judged]),
                **self.values,
            }
        return means(self.values)

    def _measure_retrieval(self, found: TopK) -> None:
        """Look for answers in the texts (`answer_recall@k`), and for gold targets by their rows."""
        dataset = self._questions.dataset
        first = first_answers(dataset, self.rows, found)
        self.values["answer_recall"] = (first < self.k).astype(float)  # of what the reader sees
        self.values |= answer_recall(first)
        qrels = dataset.qrels.get(self.split)
        gold = np.isin(self.rows, [] if qrels is None else qrels.query_rows)
        self.gold = int(gold.sum())  # recall is that of these questions
        if qrels is not None and self.gold:
            known = TopK(found.scores[gold], found.rows[gold])
            self.values |= measure(qrels, self.rows[gold], known)

    def _answer(self, found: TopK | None) -> list[str]:
        """Answer all questions, some at a time, each process its share of them."""
        dataset = self._questions.dataset
        texts = dataset.queries.take(self.rows)
        size = max(1, _PAIRS // max(1, self.k))
        own = share(len(texts))
        starts = range(own.start, own.stop, size)
        written: list[str] = []
        with evaluating(self.reader):
            for start in tqdm(starts, desc="answering", disable=not self._progress):
                some = slice(start, min(start + size, own.stop))
                targets = log_p = None
                if found is not None:
                    targets = [dataset.targets.take(r.numpy()) for r in found.rows[some, : self.k]]
                    log_p = torch.log_softmax(self.scale * found.scores[some, : self.k], dim=1)
                written += answer(self.reader, texts[some], targets, log_p, fusion=self.fusion)
        written = [text for part in exchange(written) for text in part]
        self.answers = [
            {"question": text, "answer": said, "gold": list(self._questions.answers[row])}
            for row, text, said in zip(self.rows.tolist(), texts, written, strict=True)
        ]
        return written

    def save(self, folder: Path) -> None:
        """Write every question's metrics as `SPLIT.npz` and what was answered as `answers.json`."""
        with atomic_file(folder / f"{self.split}.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self.values)  # type: ignore[arg-type]
        write_json(folder / "answers.json", self.answers)
