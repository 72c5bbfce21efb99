"""Algorithm 2 of the paper: train retriever and reader from questions and answers alone.

The corrector decides what is retrieved while training; the reader tells which of it helped. Read
beside it: `losses.py` has P_a, P_LM and their losses, `reader.py` runs the reader.
"""

import time
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.tokens import TokenStore, to_device
from unstale.distributed import exchange, share
from unstale.encoders.embed import is_cosine, preprocess
from unstale.miners.filters import FalseNegatives
from unstale.miners.miner import Miner, Queries
from unstale.rag.losses import informative, marginal_nll, perplexity_distillation, token_nll
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Encoded, Prompt, Reader, reader_input
from unstale.rag.settings import Fusion
from unstale.training.callbacks import Algorithm
from unstale.training.candidates import gather_queries, membership
from unstale.training.encode import Encoding, encode_queries, encode_targets, full_precision
from unstale.training.record import RunRecord

_NOTHING = -1e4  # the score of a target that is missing: exp(-1e4) is 0, and 0 * -1e4 is, too


@final
class RetrieverReaderLoss(Algorithm):
    """The retriever's, the reader's and the miner's losses, each moving only its own weights.

    Args:
        retriever: The encoders f and g.
        reader: Answers from a question and its targets.
        miner: Retrieves; it may own a corrector.
        tokens: The targets' tokens by row, for the retriever.
        questions: Questions, answers and the targets' texts.
        scale: The paper's beta.
        k: Targets retrieved for each question; 0: the reader sees the question alone.
        fusion: `marginal` (P_LM as Algorithm 2 writes it) or `fid` (Fusion-in-Decoder).
        corrector_weight: Multiplies the miner's loss.
        frozen: Train the reader only.
        start: The targets that the retriever ranked first before training, by question row; the
            last of each question's k targets are replaced by the first of these that it lacks.
        start_targets: How many are.
        filters: Drop some of what is retrieved. A question with fewer than k targets left is read
            alone in the place of each that is missing.
        at_once: Texts to encode at a time (GradCache); 0 encodes all at once.
        seed: Random seed for the choice among several answers to a question.
    """

    def __init__(
        self,
        retriever: SentenceTransformer,
        reader: Reader,
        miner: Miner,
        tokens: TokenStore,
        questions: QuestionSet,
        *,
        scale: float = 20.0,
        k: int = 8,
        fusion: Fusion = "marginal",
        corrector_weight: float = 10.0,
        frozen: bool = False,
        start: Int[Tensor, "q k"] | None = None,
        start_targets: int = 0,
        filters: FalseNegatives | None = None,
        at_once: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model, self.reader, self.miner = retriever, reader, miner
        self.tokens, self.questions = tokens, questions
        self.scale, self.k, self.fusion = scale, k, fusion
        self.corrector_weight, self.frozen, self.seed = corrector_weight, frozen, seed
        self.start, self.start_targets, self.filters = start, start_targets, filters
        self.record = RunRecord()  # the trainer keeps its step
        self._encoding = Encoding(is_cosine(retriever), at_once)
        reader.at_once = at_once

    def forward(self, question: Int[Tensor, " b"]) -> dict[str, Float[Tensor, ""]]:
        """Run one step of Algorithm 2 on questions given by row, up to its losses."""
        # Sample training data (x, a) ~ X.
        self.record.begin_batch(question)
        texts = self.questions.dataset.queries.take(question.cpu().numpy())
        answers = self.questions.choose_answers(question, self.seed, self.record.step)
        a = self.reader.labels(answers)  # (b, t)
        if self.k == 0:
            encoded = self._read([reader_input(text, None) for text in texts])
            loss = token_nll(self.reader.log_probs(encoded, a), a)
            return self.record.check_losses({"reader_loss": loss})

        # Compute h(g'(y)) for all y, and set S using exp(scale f(x).h(g'(y))) via top-k.
        f = self._embed_questions(texts)  # (b, d)
        none = torch.full_like(question[:, None], -1)  # any target may be retrieved
        queries = Queries(f.detach(), question, none, self.record.step, self.scale)
        mined, rows, place = self._retrieve(queries)  # (b, k), (c,), (b, k)

        # Define P(y|x), the truncated softmax over fresh g(y) of the question's own targets.
        g = self._embed_targets(rows)  # (c, d)
        with full_precision(g):
            logits = self.scale * (f[:, None, :] * g[place]).sum(dim=2)
            missing = None if self.filters is None else _missing(mined)
            log_p = torch.log_softmax(_without(logits, missing), dim=1)  # (b, k)

        # Define P_a(y|x) and, with fusion=marginal, P_LM(a|x); compute the reader's and the
        # retriever's loss from them.
        encoded = self._read(self._pairs(texts, mined))  # once a pair
        with self.record.timed("reader", self.model.device):
            losses = self._reader_and_retriever(encoded, a, log_p, missing)

        # Define P_h over the same targets; compute the correction loss from P and P_h.
        if not self.frozen:
            with full_precision(g):
                within = membership(place, len(rows))
                correction = self.miner.loss(queries, g.detach(), rows, within)
            losses["corrector_loss"] = self.corrector_weight * correction
        return self.record.check_losses(losses)

    def _reader_and_retriever(
        self,
        encoded: Encoded,
        labels: Int[Tensor, "b t"],
        log_p: Float[Tensor, "b k"],
        missing: Bool[Tensor, "b k"] | None,
    ) -> dict[str, Float[Tensor, ""]]:
        """Average the reader's and the retriever's losses; a frozen retriever has none."""
        each = labels.repeat_interleave(self.k, dim=0)  # the answer once for each target
        if self.fusion == "marginal":
            likelihood = self.reader.log_probs(encoded, each).sum(dim=1).view_as(log_p)
            likelihood = _without(likelihood, missing)
            reader_loss = marginal_nll(log_p, likelihood)
        else:
            reader_loss = token_nll(self.reader.log_probs(encoded.fused(self.k), labels), labels)
        if self.frozen:
            return {"reader_loss": reader_loss}
        if self.fusion == "fid":
            with torch.no_grad():  # P_a is a label: no gradient is wanted of it
                likelihood = self.reader.log_probs(encoded, each).sum(dim=1).view_as(log_p)
                likelihood = _without(likelihood, missing)
        # The retriever learns from the reader as far as the reader has something to say.
        weights = informative(likelihood, missing)
        retriever_loss = perplexity_distillation(log_p, likelihood, weights)
        return {"reader_loss": reader_loss / 2, "retriever_loss": retriever_loss / 2}

    def _embed_questions(self, texts: Sequence[str]) -> Float[Tensor, "b d"]:
        device = self.model.device
        with self.record.timed("retriever", device), torch.set_grad_enabled(not self.frozen):
            features = to_device(preprocess(self.model, texts, "query"), device)
            embedded = encode_queries(self.model, features, self._encoding)
        self.record.check_finite("question embeddings", embedded)
        return embedded

    @torch.no_grad()
    def _retrieve(
        self, queries: Queries
    ) -> tuple[Int[Tensor, "b k"], Int[Tensor, " c"], Int[Tensor, "b k"]]:
        """Return each question's targets, the distinct ones of all processes, and their places.

        A target that filters left none for is -1, and has the place of target 0.
        """
        everyone, began = gather_queries(queries), time.perf_counter()
        start = self.start[everyone.rows] if self.start is not None and self.start_targets else None
        with full_precision(queries.vectors):
            if self.filters is None:
                mined = self.miner.mine(everyone, self.k)
            else:
                mined, dropped = self.filters.mine(self.miner, everyone, self.k)
                if dropped is not None:
                    self.record.counters.count_dropped(dropped)
                if start is not None:
                    start = self.filters.keep(self.miner, everyone, start, dropped)
        self.record.counters.mining_seconds += time.perf_counter() - began
        if start is not None:
            # Not in the paper: a target that has been pushed away could never be taught again.
            mined = replace_last(mined, start, self.start_targets)
        rows, place = mined.clamp(min=0).unique(return_inverse=True)
        own = share(len(mined))
        return mined[own], rows, place[own]

    def _embed_targets(self, rows: Int[Tensor, " c"]) -> Float[Tensor, "c d"]:
        with self.record.timed("retriever", self.model.device):
            if self.frozen and (view := self.miner.view(rows)) is not None:
                fresh = view.stale  # as fresh as ever: the encoder does not move
            else:
                self.record.counters.targets_trained += len(rows)
                fresh = encode_targets(self.model, self.tokens, rows, self._encoding)
        self.record.check_finite("fresh embeddings", fresh, rows)
        return fresh

    def _pairs(self, texts: Sequence[str], mined: Int[Tensor, "b k"]) -> list[Prompt]:
        """Write each question with each of its targets, and alone where one is missing."""
        targets = self.questions.dataset.targets.take(mined.clamp(min=0).flatten().cpu().numpy())
        there = (mined >= 0).flatten().tolist()
        each = zip(np.repeat(np.array(texts, object), self.k), targets, there, strict=True)
        return [reader_input(text, target if known else None) for text, target, known in each]

    def _read(self, inputs: Sequence[Prompt]) -> Encoded:
        before = self.reader.truncated
        with self.record.timed("reader", self.model.device):
            encoded = self.reader.encode(inputs)
        for read, truncated in exchange((len(inputs), self.reader.truncated - before)):
            self.record.count("reader_inputs", read)
            self.record.count("reader_truncated", truncated)
        return encoded

    def train(self, mode: bool = True) -> "RetrieverReaderLoss":
        """Set the mode; a frozen retriever stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.model.eval()
        return self

    def gradient_checkpointing_enable(self, **options: object) -> None:
        """Let the reader recompute its activations, as the Trainer asks a model to."""
        self.reader.model.gradient_checkpointing_enable(**options)


def replace_last(
    mined: Int[Tensor, "b k"], other: Int[Tensor, "b k"], count: int
) -> Int[Tensor, "b k"]:
    """Replace the last `count` of each row by the first of another that the rest does not have.

    Where the other has too few, since some of it is -1, the last of the row stay.

    Example:
        >>> replace_last(torch.tensor([[5, 6, 7, 8]]), torch.tensor([[6, 1, 2, 8]]), 2)
        tensor([[5, 6, 1, 2]])
        >>> replace_last(torch.tensor([[5, 6, 7, -1]]), torch.tensor([[6, 1, -1, -1]]), 2)
        tensor([[5, 6, 1, 7]])
    """
    k = mined.shape[1]
    rows = torch.cat([mined[:, : k - count], other, mined[:, k - count :]], dim=1)
    had = (rows[:, :, None] == rows[:, None, :]).tril(-1).any(dim=2) | (rows < 0)
    order = had.int().argsort(dim=1, stable=True)[:, :k]
    return rows.gather(1, order).masked_fill(had.gather(1, order), -1)


def _missing(mined: Int[Tensor, "b k"]) -> Bool[Tensor, "b k"]:
    """Mark the targets that are missing; none of a question that has no other, read alone."""
    missing = mined < 0
    return missing & ~missing.all(dim=1, keepdim=True)


def _without(
    scores: Float[Tensor, "b k"], missing: Bool[Tensor, "b k"] | None
) -> Float[Tensor, "b k"]:
    return scores if missing is None else scores.masked_fill(missing, _NOTHING)
