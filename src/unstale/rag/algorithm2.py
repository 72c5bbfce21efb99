"""Algorithm 2 of the paper: train retriever and reader from questions and answers alone.

The corrector decides what is retrieved while training; the reader tells which of it helped.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from unstale.data.tokens import TokenStore
from unstale.distributed import exchange, share, total, world
from unstale.encoders.embed import embed, is_cosine, preprocess
from unstale.miners.miner import Miner
from unstale.rag.losses import Likelihood, answer_scores, marginal_nll, perplexity_distillation
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import IGNORED, Encoded, Reader, reader_input
from unstale.search.draws import ANSWER, bits
from unstale.training.candidates import encode, everyone, full_precision, membership
from unstale.training.record import Record

Fusion = Literal["fid", "marginal"]


@final
class RetrieverReaderLoss(nn.Module):
    """The retriever's, the reader's and the miner's losses, each moving only its own weights.

    Args:
        retriever: The encoders f and g.
        reader: Answers from a question and its targets.
        miner: Retrieves; it may own a corrector.
        tokens: The targets' tokens by row, for the retriever.
        questions: Questions, answers and the targets' texts.
        scale: The paper's beta.
        k: Targets retrieved for each question; 0: the reader sees the question alone.
        fusion: `fid` (Fusion-in-Decoder) or `marginal` (P_LM as Algorithm 2 writes it).
        likelihood: How P_a scores an answer, see `answer_scores`.
        corrector_weight: Multiplies the miner's loss.
        frozen: Train the reader only.
        seed: Of the choice among several answers to a question.
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
        fusion: Fusion = "fid",
        likelihood: Likelihood = "sequence",
        corrector_weight: float = 10.0,
        frozen: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model = retriever
        self.reader = reader
        self.miner = miner
        self.tokens = tokens
        self.scale = scale
        self.k = k
        self.fusion = fusion
        self.likelihood: Likelihood = likelihood
        self.corrector_weight = corrector_weight
        self.frozen = frozen
        self.seed = seed
        self.record = Record()  # the trainer keeps its step
        self._questions = questions
        self._unit = is_cosine(retriever)

    def forward(self, question: Int[Tensor, " b"]) -> dict[str, Float[Tensor, ""]]:
        """Run one step of Algorithm 2 on questions given by row, up to its losses."""
        self.record.batch = question.tolist()
        texts = self._questions.dataset.queries.take(question.cpu().numpy())
        labels = self.reader.labels(self._choose_answers(question))
        if self.k == 0:
            inputs = self._read([reader_input(text, None) for text in texts])
            return self._checked({"reader_loss": self._token_nll(inputs, labels)})

        with self._timed("retriever"):
            queries = self._embed_questions(texts)  # f(x), (b, d)
        if not torch.isfinite(queries).all():
            raise self.record.not_finite("question embeddings")
        # Set S using exp(scale f(x).h(g'(y))) via top-k; each question has its own. Where there are
        # several processes, B is the batch of all of them, and b this one's part.
        mined = self._mine(queries.detach(), question)  # (B, k)
        rows, place = mined.unique(return_inverse=True)  # (c,), (B, k)
        own = share(len(mined))
        mined, place = mined[own], place[own]  # (b, k)
        with self._timed("retriever"):
            fresh = self._embed_targets(rows)  # g(y), (c, d)
        if not (good := torch.isfinite(fresh).all(dim=1)).all():
            raise self.record.not_finite("fresh embeddings", rows[~good])
        with full_precision(fresh):
            # P(y|x), the truncated softmax over fresh embeddings.
            logits = self.scale * (queries[:, None, :] * fresh[place]).sum(dim=2)
            log_p = torch.log_softmax(logits, dim=1)  # (b, k)
        targets = self._questions.dataset.targets.take(mined.flatten().cpu().numpy())
        pairs = zip(np.repeat(np.array(texts, object), self.k), targets, strict=True)
        encoded = self._read([reader_input(text, target) for text, target in pairs])  # once a pair
        with self._timed("reader"):
            losses = self._losses(encoded, labels, log_p)
        if not self.frozen:
            with full_precision(fresh):
                within = membership(place, len(rows))
                correction = self.miner.loss(queries.detach(), fresh.detach(), rows, within)
            losses["corrector_loss"] = self.corrector_weight * correction
        return self._checked(losses)

    def _checked(self, losses: dict[str, Float[Tensor, ""]]) -> dict[str, Float[Tensor, ""]]:
        """Stop at a loss that is not finite."""
        for name, value in losses.items():
            if not torch.isfinite(value):
                part = name.removesuffix("_loss")
                raise self.record.not_finite(f"the {part}'s loss")
        return losses

    def _losses(
        self, encoded: Encoded, labels: Int[Tensor, "b t"], log_p: Float[Tensor, "b k"]
    ) -> dict[str, Float[Tensor, ""]]:
        """Average the reader's and the retriever's losses; a frozen retriever has none."""
        each = labels.repeat_interleave(self.k, dim=0)  # the answer once for each target
        if self.fusion == "marginal":
            tokens = self.reader.log_probs(encoded, each)  # log P(a|y,x), with gradients
            likelihood = answer_scores(tokens, each != IGNORED, "sequence")
            reader_loss = marginal_nll(log_p, likelihood.view_as(log_p))
        else:
            reader_loss = self._token_nll(encoded.fused(self.k), labels)
        if self.frozen:
            return {"reader_loss": reader_loss}
        if self.fusion == "fid":
            with torch.no_grad():  # P_a is a label: no gradient is wanted of it
                tokens = self.reader.log_probs(encoded, each)
        scores = answer_scores(tokens, each != IGNORED, self.likelihood).view_as(log_p)
        return {
            "reader_loss": reader_loss / 2,
            "retriever_loss": perplexity_distillation(log_p, scores) / 2,
        }

    def _token_nll(self, encoded: Encoded, labels: Int[Tensor, "b t"]) -> Float[Tensor, ""]:
        """Average -log P over all tokens of the batch's answers, as T5 does."""
        tokens = total((labels != IGNORED).sum()) / world()  # gradients are averaged later
        return -self.reader.log_probs(encoded, labels).sum() / tokens

    def _choose_answers(self, rows: Int[Tensor, " b"]) -> list[str]:
        """Take one of each question's answers; which depends on (seed, step, question) only."""
        random = bits(ANSWER, self.seed, self.record.step, rows, torch.zeros_like(rows[:1]))[:, 0]
        several = [
            [a for a in self._questions.answers[row] if a.strip()] for row in rows.cpu().tolist()
        ]
        return [a[r % len(a)] for a, r in zip(several, random.tolist(), strict=True)]

    def _embed_questions(self, texts: Sequence[str]) -> Float[Tensor, "b d"]:
        features = preprocess(self.model, texts, "query")
        device = self.model.device
        features = {k: v.to(device) if torch.is_tensor(v) else v for k, v in features.items()}
        with torch.set_grad_enabled(not self.frozen):
            return embed(self.model, features, "query", unit=self._unit).float()

    def _embed_targets(self, rows: Int[Tensor, " c"]) -> Float[Tensor, "c d"]:
        if self.frozen and (view := self.miner.view(rows)) is not None:
            return view.stale  # as fresh as ever: the encoder does not move
        self.record.counters.targets_trained += len(rows)
        return encode(self.model, self.tokens, rows, unit=self._unit).float()

    @torch.no_grad()
    def _mine(
        self, queries: Float[Tensor, "b d"], question: Int[Tensor, " b"]
    ) -> Int[Tensor, "B k"]:
        start = time.perf_counter()
        none = torch.full_like(question[:, None], -1)  # any target may be retrieved
        with full_precision(queries):
            mined = self.miner.mine(everyone(queries, question, none, self.record.step), self.k)
        self.record.counters.mining_seconds += time.perf_counter() - start
        return mined

    def _read(self, inputs: Sequence[str]) -> Encoded:
        before = self.reader.truncated
        with self._timed("reader"):
            encoded = self.reader.encode(inputs)
        for read, truncated in exchange((len(inputs), self.reader.truncated - before)):
            self._count("reader_inputs", read)
            self._count("reader_truncated", truncated)
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

    def _count(self, name: str, value: int | float) -> None:
        self.record.parts[name] = self.record.parts.get(name, 0) + value

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Add the time of a block to a part's seconds; work queued on a device is waited for."""
        start = time.perf_counter()
        yield
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)
        self._count(f"{part}_seconds", time.perf_counter() - start)
