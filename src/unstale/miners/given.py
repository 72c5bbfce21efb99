"""Given: hard negatives that the data came with."""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from unstale.data.dataset import ByQuery
from unstale.miners.miner import Miner, Queries
from unstale.search.draws import GIVEN, bits

_LAST = torch.iinfo(torch.int64).max


@final
class Given(Miner):
    """Draw from each query's given negatives, anew each step, keyed by (seed, step, query).

    Args:
        negatives: The given negatives of each query.
        seed: Of the draws.
    """

    def __init__(self, negatives: ByQuery, seed: int) -> None:
        super().__init__()
        self.negatives = negatives
        self.seed = seed

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Draw k given negatives for each query; -1 where it has fewer."""
        found = self.negatives(queries.rows.cpu().numpy())
        rows = torch.from_numpy(found).to(queries.rows.device)  # (b, w)
        twin = (rows[:, :, None] == queries.positives[:, None, :]).any(dim=2)
        rows = rows.masked_fill(twin, -1)
        places = torch.arange(rows.shape[1], device=rows.device)
        numbers = bits(GIVEN, self.seed, queries.step, queries.rows, places)
        order = numbers.masked_fill(rows < 0, _LAST).argsort(dim=1)[:, :k]
        chosen = rows.gather(1, order)
        return functional.pad(chosen, (0, k - chosen.shape[1]), value=-1)
