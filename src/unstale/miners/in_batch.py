"""In-batch: the other queries' positives are the negatives; nothing is mined."""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from unstale.miners.miner import Miner, Queries
from unstale.miners.strategy import built_by


@final
class InBatch(Miner):
    """Choose no target at all: the softmax holds the labels of the batch."""

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b 0"]:
        """Return no rows."""
        return torch.zeros(len(queries.vectors), 0, dtype=torch.long, device=queries.rows.device)


STRATEGY = built_by("in-batch", lambda materials: InBatch())
