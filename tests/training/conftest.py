"""An encoder that moved after the corpus was embedded: what the caches hold can be counted."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator
from unstale.miners import Miner
from unstale.training.overlap import LastLook, last_look


@dataclass(frozen=True)
class Drifted:
    """An encoder as it is now, and the corpus as it was embedded before the encoder moved."""

    model: SentenceTransformer
    dataset: RetrievalDataset
    buffer: TargetBuffer
    fresh: torch.Tensor  # the corpus as it would be embedded now

    def look(self, miner: Miner, **more: int) -> LastLook | None:
        """Evaluate the encoder, and look at the corpus as a miner sees it."""
        tokens = target_tokens(self.model, self.dataset, progress=False)
        rows = self.dataset.split("train").query_rows
        evaluator = Evaluator(self.dataset, "test", tokens, train_rows=rows, progress=False)
        evaluator(self.model)
        return last_look(self.model, miner, evaluator, **more)


@pytest.fixture
def drifted(static_model: SentenceTransformer, dataset: RetrievalDataset) -> Drifted:
    tokens, rows = target_tokens(static_model, dataset, progress=False), np.arange(120)
    buffer = TargetBuffer([embed_targets(static_model, tokens, rows)])
    with torch.no_grad():
        weight = static_model[0].embedding.weight
        weight.add_(0.5 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    return Drifted(static_model, dataset, buffer, embed_targets(static_model, tokens, rows))
