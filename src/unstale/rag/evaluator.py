"""Answer questions with the retriever and reader as they are, and judge: a split, and dev."""

from collections.abc import Iterable, Sequence
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
from unstale.distributed import broadcast, exchange, share
from unstale.encoders.embed import embed_queries, embed_together, evaluating
from unstale.evaluation.by_answer import answer_recall, first_answers
from unstale.evaluation.metrics import means, measure
from unstale.evaluation.retrieve import fresh_chunks, retrieve
from unstale.files import atomic_file, write_json
from unstale.miners.miner import Miner
from unstale.rag.answering import answer
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader
from unstale.rag.settings import RagSettings
from unstale.results import AnsweredQuestion
from unstale.search.best import TopK
from unstale.training.settings import Checked

_DEPTH = 100  # targets retrieved for each question, if the reader does not see more
_SHOWN, _READ = 8, 3  # questions that the report shows, and how many of the targets read
_PAIRS = 64  # (question, target) pairs that the reader encodes at once
# The metrics, answer_mrr of dev and the answers shown, by the reader's weights and k.
Starts = dict[tuple[str, int], tuple[dict[str, float], float, list[str]]]


@final
class RagEvaluator:
    """Measure exact match, F1, answer recall, and recall where gold targets are known.

    `answer_recall` is the share of questions with an answer in one of the k targets that the
    reader sees, `answer_recall@10` in the first 10; `answer_mrr` is the mean of 1/rank of the first
    target that holds an answer.

    Args:
        dev: Questions to measure the retriever on beside those of the split, for `found_in_dev`.
    """

    def __init__(
        self,
        questions: QuestionSet,
        tokens: TokenStore,
        reader: Reader,
        checked: Checked[RagSettings],
        *,
        dev: Int[ndarray, " d"] | None = None,
        progress: bool = True,
    ) -> None:
        settings = checked.settings
        self.split, self.fusion = settings.eval_split, settings.fusion
        self.k, self.scale = checked.counts.hard, checked.scale
        self.reader = reader
        self.gold = 0  # questions that have gold targets
        self.values: dict[str, Float[ndarray, " q"]] = {}
        self.found_in_dev = 0.0  # answer_mrr of the dev questions when last retrieved for
        self.answers: list[dict[str, Any]] = []
        self._before: list[str] = []  # what was answered to the questions shown, before training
        self._found: TopK | None = None  # for the questions of the split
        self._questions, self._tokens, self._progress = questions, tokens, progress
        self._bf16 = bool(settings.trainer.get("bf16"))
        rows = questions.rows(self.split)
        if 0 < settings.eval_questions < len(rows):
            rows = np.random.default_rng(0).permutation(rows)[: settings.eval_questions]
        self.rows: Int[ndarray, " q"] = np.sort(rows)
        self.dev: Int[ndarray, " d"] = np.zeros(0, np.int64) if dev is None else dev

    def __call__(
        self,
        model: SentenceTransformer,
        corpus: Iterable[tuple[int, Float[Tensor, "n d"]]] | None = None,
    ) -> dict[str, float]:
        """Return the mean of every metric."""
        return self.read(self.retrieve(model, corpus))

    def retrieve(
        self,
        model: SentenceTransformer,
        corpus: Iterable[tuple[int, Float[Tensor, "n d"]]] | None = None,
    ) -> TopK | None:
        """Find the best targets of every question, and measure the retrieval: see `means`."""
        self.values = {}
        if not self.k:
            return None
        if corpus is None:
            corpus = fresh_chunks(model, self._tokens, progress=self._progress)
        asked = np.concatenate([self.rows, self.dev])
        # A question is no target: the rule that leaves out the target of its id is for queries.
        depth = max(_DEPTH, self.k)
        both = retrieve(model, self._questions.dataset, asked, corpus, k=depth, own=True)
        found = self._found = TopK(*(part[: len(self.rows)] for part in both))
        if len(self.dev):
            of_dev = TopK(*(part[len(self.rows) :] for part in both))
            first = first_answers(self._questions.dataset, self.dev, of_dev)
            self.found_in_dev = float(np.mean(1 / (1 + first)))
        self._measure_retrieval(found)
        return found

    def read(self, found: TopK | None) -> dict[str, float]:
        """Answer the questions of the split from what was found; return the mean of everything."""
        written = self._answer(self.rows, found)
        self.answers = [
            {"question": text, "answer": said, "gold": list(self._questions.answers[row])}
            for row, text, said in zip(
                self.rows.tolist(), self._texts(self.rows), written, strict=True
            )
        ]
        self.values = self._judge(self.rows, written) | self.values
        return self.means

    def begin(
        self,
        model: SentenceTransformer,
        corpus: Iterable[tuple[int, Float[Tensor, "n d"]]] | None,
        known: Starts,
    ) -> dict[str, float]:
        """Measure retriever and reader before training; remember the answers for the report.

        Several runs that start alike are measured once: what is found is added to `known`.
        """
        start = self.reader.weights, self.k
        if start not in known:
            measured = self(model, corpus)
            before = [self.answers[i]["answer"] for i in self._shown.tolist()]
            known[start] = measured, self.found_in_dev, before
        measured, self.found_in_dev, self._before = known[start]
        return dict(measured)

    def examples(self) -> list[AnsweredQuestion]:
        """Show some questions: what was answered before training and now, and from what."""
        listed = []
        for i, before in zip(self._shown.tolist(), self._before, strict=True):
            seen = () if self._found is None else self._found.rows[i, : min(self.k, _READ)].numpy()
            read = self._questions.dataset.targets.take(seen) if len(seen) else []
            listed.append(AnsweredQuestion(**self.answers[i], before=before, read=list(read)))
        return listed

    @property
    def _shown(self) -> Int[ndarray, " s"]:
        return np.arange(0, len(self.rows), max(1, len(self.rows) // _SHOWN))[:_SHOWN]

    @property
    def means(self) -> dict[str, float]:
        """The mean of everything that was measured last."""
        return means(self.values)

    def look(self, model: SentenceTransformer, miner: Miner) -> tuple[dict[str, float], int]:
        """Answer the dev questions from what the miner's view of the corpus ranks first.

        Nothing but those targets is encoded, so a look costs no more in a large corpus. Return
        the means, and how many targets were encoded.
        """
        found, encoded = None, 0
        if self.k:
            vectors = embed_queries(model, self._texts(self.dev)).to(model.device)
            ranked = miner.ranked(vectors, self.k)
            assert ranked is not None
            best = ranked.searched.rows.to(model.device)
            broadcast([best])  # all processes must encode the same targets
            rows, place = best.unique(return_inverse=True)
            fresh = embed_together(model, self._tokens, rows.cpu().numpy()).to(model.device)
            scores = (vectors[:, None, :] * fresh[place]).sum(dim=2)
            order = scores.sort(dim=1, descending=True)
            found = TopK(order.values.cpu(), best.gather(1, order.indices).cpu())
            encoded = len(rows)
        values = self._judge(self.dev, self._answer(self.dev, found))
        if found is not None:
            first = first_answers(self._questions.dataset, self.dev, found)
            values["answer_recall"] = np.isfinite(first).astype(float)
        return means(values), encoded

    def _texts(self, rows: Int[ndarray, " n"]) -> Sequence[str]:
        return self._questions.dataset.queries.take(rows)

    def _judge(
        self, rows: Int[ndarray, " n"], written: Sequence[str]
    ) -> dict[str, Float[ndarray, " n"]]:
        golds = [self._questions.answers[row] for row in rows.tolist()]
        judged = list(zip(written, golds, strict=True))
        return {
            "exact_match": np.array([exact_match(a, g) for a, g in judged]),
            "f1": np.array([f1(a, g) for a, g in judged]),
        }

    def _measure_retrieval(self, found: TopK) -> None:
        """Look for answers in the texts (`answer_recall@k`), and for gold targets by their rows."""
        dataset = self._questions.dataset
        first = first_answers(dataset, self.rows, found)
        self.values["answer_recall"] = (first < self.k).astype(float)  # of what the reader sees
        self.values["answer_mrr"] = 1 / (1 + first)
        self.values |= answer_recall(first)
        qrels = dataset.qrels.get(self.split)
        gold = np.isin(self.rows, [] if qrels is None else qrels.query_rows)
        self.gold = int(gold.sum())  # recall is that of these questions
        if qrels is not None and self.gold:
            known = TopK(found.scores[gold], found.rows[gold])
            self.values |= measure(qrels, self.rows[gold], known)

    def _answer(self, rows: Int[ndarray, " n"], found: TopK | None) -> list[str]:
        """Answer questions, some at a time, each process its share of them."""
        dataset, texts = self._questions.dataset, self._texts(rows)
        size = max(1, _PAIRS // max(1, self.k))
        own = share(len(texts))
        starts = range(own.start, own.stop, size)
        written: list[str] = []
        precision = torch.autocast(self.reader.device.type, torch.bfloat16, enabled=self._bf16)
        with evaluating(self.reader), precision:
            for start in tqdm(starts, desc="answering", disable=not self._progress):
                some = slice(start, min(start + size, own.stop))
                targets = log_p = None
                if found is not None:
                    targets = [dataset.targets.take(r.numpy()) for r in found.rows[some, : self.k]]
                    log_p = torch.log_softmax(self.scale * found.scores[some, : self.k], dim=1)
                written += answer(self.reader, texts[some], targets, log_p, fusion=self.fusion)
        return [text for part in exchange(written) for text in part]

    def save(self, folder: Path) -> None:
        """Write every question's metrics as `SPLIT.npz` and what was answered as `answers.json`."""
        with atomic_file(folder / f"{self.split}.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self.values)  # type: ignore[arg-type]
        write_json(folder / "answers.json", self.answers)
