"""Given negatives: hard negatives that the dataset provides, drawn anew at every step."""

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from unstale.data.dataset import ByQuery
from unstale.miners.miner import Queries
from unstale.search.draws import GIVEN, bits

_LAST = torch.iinfo(torch.int64).max


def draw_given(given: ByQuery, queries: Queries, k: int, seed: int) -> Int[Tensor, "b k"]:
    """Draw k of each query's given negatives, keyed by (seed, step, query); -1 for fewer."""
    rows = torch.from_numpy(given(queries.rows.cpu().numpy())).to(queries.rows.device)  # (b, w)
    positive = (rows[:, :, None] == queries.positives[:, None, :]).any(dim=2)
    rows = rows.masked_fill(positive, -1)
    places = torch.arange(rows.shape[1], device=rows.device)
    numbers = bits(GIVEN, seed, queries.step, queries.rows, places)
    order = numbers.masked_fill(rows < 0, _LAST).argsort(dim=1)[:, :k]
    chosen = rows.gather(1, order)
    return functional.pad(chosen, (0, k - chosen.shape[1]), value=-1)
