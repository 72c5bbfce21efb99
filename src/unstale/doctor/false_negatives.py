"""How many mined negatives may be positives themselves, as the encoder sees them at its start?"""

from typing import NamedTuple

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch.nn import functional

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import RetrievalDataset
from unstale.doctor.sample import PROBE
from unstale.encoders.embed import embed_queries
from unstale.miners import Negatives, Stale
from unstale.miners.offline import mine_split

TWIN = 0.95  # a negative with at least this cosine to the positive says nearly the same


class Suspects(NamedTuple):
    """Shares of the negatives that plain mining takes; exact duplicates of a positive are not."""

    above: float  # score above the positive: an untrained encoder ranks many a true negative there
    twins: float  # are nearly the same text as the positive


@torch.no_grad()
def find_false_negatives(
    model: SentenceTransformer, dataset: RetrievalDataset, buffer: TargetBuffer, k: int
) -> Suspects:
    """Mine k for each probed query, and compare them with the first of its positives."""
    mined = mine_split(model, dataset, PROBE, Negatives(Stale(buffer)), k, progress=False)
    pairs = dataset.split(PROBE).pairs
    first = np.unique(pairs[:, 0], return_index=True)[1]
    queries = embed_queries(model, dataset.queries.take(mined.queries))  # (q, d)
    positive = buffer[torch.from_numpy(pairs[first, 1])].float()
    negative = buffer[torch.from_numpy(mined.targets.clip(min=0)).flatten()].float()
    negative = negative.view(*mined.targets.shape, -1)  # (q, k, d)
    above = (negative @ queries[:, :, None])[:, :, 0] > (queries * positive).sum(1, keepdim=True)
    twin = functional.cosine_similarity(negative, positive[:, None], dim=2) >= TWIN
    there = torch.from_numpy(mined.targets >= 0)
    count = max(1, int(there.sum()))
    return Suspects(int((above & there).sum()) / count, int((twin & there).sum()) / count)
