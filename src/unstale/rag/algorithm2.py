"""Algorithm 2 of the paper: train retriever and reader from questions and answers alone.

The corrector decides what is retrieved while training; the reader tells which of it helped. Read
beside it: `losses.py` has P_a, P_LM and their losses, `reader.py` runs the reader.
"""

import time
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.tokens import TokenStore, to_device
from unstale.distributed import exchange, share
from unstale.encoders.embed import is_cosine, preprocess
from unstale.miners.miner import Miner, Queries
from unstale.rag.losses import informative, marginal_nll, perplexity_distillation, token_nll
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Encoded, Prompt, Reader, reader_input
from unstale.rag.settings import Fusion
from unstale.training.callbacks import Algorithm
from unstale.training.candidates import gather_queries, membership
from unstale.training.encode import Encoding, encode_queries, encode_targets, full_precision
from unstale.training.record import RunRecord


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
        at_once: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model, self.reader, self.miner = retriever, reader, miner
        self.tokens, self.questions = tokens, questions
        self.scale, self.k, self.fusion = scale, k, fusion
        self.corrector_weight, self.frozen, self.seed = corrector_weight, frozen, seed
        self.start, self.start_targets = start, start_targets
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
            log_p = torch.log_softmax(logits, dim=1)  # (b, k)

        # Define P_a(y|x) and, with fusion=marginal, P_LM(a|x); compute the reader's and the
        # retriever's loss from them.
        targets = self.questions.dataset.targets.take(mined.flatten().cpu().numpy())
        pairs = zip(np.repeat(np.array(texts, object), self.k), targets, strict=True)
        encoded = self._read([reader_input(text, target) for text, target in pairs])  # once a pair
        with self.record.timed("reader", self.model.device):
            losses = self._reader_and_retriever(encoded, a, log_p)

        # Define P_h over the same targets; compute the correction loss from P and P_h.
        if not self.frozen:
            with full_precision(g):
                within = membership(place, len(rows))
                correction = self.miner.loss(queries, g.detach(), rows, within)
            losses["corrector_loss"] = self.corrector_weight * correction
        return self.record.check_losses(losses)

    def _reader_and_retriever(
        self, encoded: Encoded, labels: Int[Tensor, "b t"], log_p: Float[Tensor, "b k"]
    ) -> dict[str, Float[Tensor, ""]]:
        """Average the reader's and the retriever's losses; a frozen retriever has none."""
        each = labels.repeat_interleave(self.k, dim=0)  # the answer once for each target
        if self.fusion == "marginal":
            likelihood = self.reader.log_probs(encoded, each).sum(dim=1).view_as(log_p)
            reader_loss = marginal_nll(log_p, likelihood)
        else:
            reader_loss = token_nll(self.reader.log_probs(encoded.fused(self.k), labels), labels)
        if self.frozen:
            return {"reader_loss": reader_loss}
        if self.fusion == "fid":
            with torch.no_grad():  # P_a is a label: no gradient is wanted of it
                likelihood = self.reader.log_probs(encoded, each).sum(dim=1).view_as(log_p)
        # The retriever learns from the reader as far as the reader has something to say.
        weights = informative(likelihood)
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
        """Return each question's targets, the distinct ones of all processes, and their places."""
        everyone, began = gather_queries(queries), time.perf_counter()
        with full_precision(queries.vectors):
            mined = self.miner.mine(everyone, self.k)
        self.record.counters.mining_seconds += time.perf_counter() - began
        if self.start is not None and self.start_targets:
            # Not in the paper: a target that has been pushed away could never be taught again.
            mined = replace_last(mined, self.start[everyone.rows], self.start_targets)
        rows, place = mined.unique(return_inverse=True)
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

    Example:
        >>> replace_last(torch.tensor([[5, 6, 7, 8]]), torch.tensor([[6, 1, 2, 8]]), 2)
        tensor([[5, 6, 1, 2]])
    """
    kept = mined[:, : mined.shape[1] - count]
    had = (other[:, :, None] == kept[:, None, :]).any(dim=2)
    lacking = had.int().argsort(dim=1, stable=True)[:, :count]
    return torch.cat([kept, other.gather(1, lacking)], dim=1)
