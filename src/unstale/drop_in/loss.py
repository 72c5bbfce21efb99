"""What a stock trainer calls as its loss: Algorithm 1 in training, in-batch on evaluation sets."""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from unstale.encoders.embed import embed, is_cosine
from unstale.errors import InputError
from unstale.training.algorithm1 import FreshNegativesLoss


@final
class ScriptLoss(nn.Module):
    """Guard Algorithm 1 against a trainer that was not attached, and measure evaluation sets."""

    def __init__(self, algorithm: FreshNegativesLoss) -> None:
        super().__init__()
        self.model = algorithm.model  # first, so that its weights keep their names for a trainer
        self.algorithm = algorithm
        self.attached = False

    def forward(
        self, features: list[dict[str, Any]], labels: Tensor | None
    ) -> dict[str, Float[Tensor, ""]]:
        """Run one step of Algorithm 1; an evaluation set leaves miner and counters alone."""
        if not self.model.training:
            return {"task_loss": self._in_batch(features)}
        if labels is None:
            rule = "a training set needs a column `label`, [query row, positive row]"
            raise InputError(f"{rule}: train on the dataset that FreshNegatives made")
        if not self.attached:
            raise InputError("call fresh.attach(trainer) before training: it keeps the step")
        return self.algorithm(features, labels)

    def _in_batch(self, features: list[dict[str, Any]]) -> Float[Tensor, ""]:
        """Measure (query, positive, negative, ...) columns by the softmax over the batch itself."""
        if len(features) < 2:
            raise InputError("an evaluation set needs a column of queries and one of positives")
        unit = is_cosine(self.algorithm.model)
        queries = embed(self.model, features[0], "query", unit=unit).float()
        columns = [embed(self.model, f, "document", unit=unit) for f in features[1:]]
        logits = self.algorithm.scale * queries @ torch.cat(columns).float().T
        return functional.cross_entropy(logits, torch.arange(len(queries), device=logits.device))

    def get_config_dict(self) -> dict[str, Any]:
        """Tell the model card how the model was trained."""
        return self.algorithm.get_config_dict()

    @property
    def citation(self) -> str:
        """Return what the model card is to cite."""
        return self.algorithm.citation
