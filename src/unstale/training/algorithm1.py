"""Algorithm 1 of the paper: train the encoders on fresh candidates that a miner chooses.

It is a sentence-transformers loss, because only a loss sees both the model and the batch on the
training step: a data collator runs ahead of it and cannot be fresh. Rows of the training set look
like `{"query": text, "label": [query row, positive row]}`.

Read beside it: `candidates.py` chooses S, `encode.py` runs f and g, `objectives.py` has the task
loss, and `miners/corrected.py` the corrector's.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.dataset import Positives
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import dimension, is_cosine
from unstale.errors import InputError
from unstale.miners.miner import Queries
from unstale.miners.negatives import Negatives
from unstale.training.callbacks import Algorithm
from unstale.training.candidates import choose_candidates
from unstale.training.card import CITATION
from unstale.training.encode import Encoding, encode_queries, encode_targets, full_precision
from unstale.training.objectives import TruncatedSoftmax, nested_dims
from unstale.training.record import RunRecord


@final
class FreshNegativesLoss(Algorithm):
    """The task loss of the encoders and the miner's own loss, each moving only its own weights.

    Args:
        model: The encoders f and g.
        negatives: Chooses the candidates; its miner may own a corrector.
        tokens: The targets' tokens by row.
        positives: The rows that are never a query's negatives.
        scale: The paper's beta; it multiplies the scores.
        corrector_weight: Multiplies the miner's loss.
        share_candidates: Let every query of the batch see the candidates of all queries.
        adds_in_batch: Add the loss over the batch's positives to that over all candidates.
        mini_batch_size: Texts to encode at a time (GradCache); 0 encodes all at once.
        matryoshka_dims: Also train the first N dimensions as embeddings of their own.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        negatives: Negatives,
        tokens: TokenStore,
        positives: Positives,
        *,
        scale: float = 20.0,
        corrector_weight: float = 10.0,
        share_candidates: bool = True,
        adds_in_batch: bool = False,
        mini_batch_size: int = 0,
        matryoshka_dims: Sequence[int] = (),
    ) -> None:
        super().__init__()
        if scale <= 0:
            raise InputError(f"scale must be above 0, got {scale}")
        self.model = model
        self.miner = negatives.miner
        self.scale = scale
        self.negatives = negatives
        self.tokens = tokens
        self.positives = positives
        self.corrector_weight = corrector_weight
        self.share_candidates = share_candidates
        self.adds_in_batch = adds_in_batch
        self.dims = nested_dims(matryoshka_dims, dimension(model))
        self.about: dict[str, Any] = {}  # what the model card says of the run
        self.record = RunRecord()  # the trainer keeps its step
        self.encoding = Encoding(is_cosine(model), mini_batch_size)

    def forward(
        self, features: list[dict[str, Any]], labels: Int[Tensor, "b 2"]
    ) -> dict[str, Float[Tensor, ""]]:
        """Run one step up to its two losses; labels are the rows of queries and positives."""
        # Sample training data (x, y) ~ X: the trainer did; f(x) is encoded anew at every step.
        query_rows, label = labels.T.contiguous()
        self.record.begin_batch(query_rows)
        f = encode_queries(self.model, features[0], self.encoding)  # (b, d)
        self.record.check_finite("query embeddings", f)
        known = torch.from_numpy(self.positives(query_rows.cpu().numpy())).to(label.device)
        queries = Queries(f.detach(), query_rows, known, self.record.step, self.scale)

        # Compute h(g'(y)) for all y, set S using exp(scale f(x).h(g'(y))) via top-k, and include
        # the supervised label.
        candidates = choose_candidates(
            self.negatives, queries, label, self.record.counters, shared=self.share_candidates
        )

        # Define P(y|x) over fresh g(y) of the candidates, and P*; compute the task loss from both.
        g = encode_targets(self.model, self.tokens, candidates.rows, self.encoding)  # (c, d)
        self.record.counters.targets_trained += len(g)
        with full_precision(g):
            softmax = TruncatedSoftmax(self.scale, self.dims, self.encoding.unit)
            if self.adds_in_batch:  # beyond the paper
                task = softmax.with_in_batch(f, g, candidates)
            else:
                task = softmax.cross_entropy(f, g, candidates.label, candidates.absent)

            # Define P_h over the same candidates; compute the correction loss from P and P_h.
            correction = self.miner.loss(queries, g.detach(), candidates.rows, candidates.within)

        # The trainer updates the encoders by the first loss and the corrector by the second.
        losses = {"task_loss": task, "corrector_loss": self.corrector_weight * correction}
        return self.record.check_losses(losses, ("fresh embeddings", g, candidates.rows))

    def get_config_dict(self) -> dict[str, Any]:
        """Tell the model card how the model was trained."""
        return self.about

    @property
    def citation(self) -> str:
        """Return what the model card is to cite."""
        return CITATION
