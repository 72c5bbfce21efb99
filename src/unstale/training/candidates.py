"""The queries and candidates of a step, over all processes: what Algorithms 1 and 2 share."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional

from unstale.data.tokens import TokenStore
from unstale.distributed import exchange, gather, gather_with_gradients, share, world
from unstale.encoders.embed import embed
from unstale.miners.miner import Queries
from unstale.training.gradcache import in_mini_batches


def everyone(
    queries: Float[Tensor, "b d"],
    query_rows: Int[Tensor, " b"],
    positives: Int[Tensor, "b p"],
    step: int,
) -> Queries:
    """Gather the queries of all processes; each searches its own rows for all of them."""
    width = max(exchange(positives.shape[1]))
    padded = functional.pad(positives, (0, width - positives.shape[1]), value=-1)
    return Queries(gather(queries.detach()), gather(query_rows), gather(padded), step)


def encode(
    model: SentenceTransformer,
    tokens: TokenStore,
    rows: Int[Tensor, " c"],
    *,
    unit: bool,
    mini_batch_size: int = 0,
) -> Float[Tensor, "c d"]:
    """Encode targets, each process as many; their gradients come from all of them."""
    missing = -len(rows) % world()  # encoded and thrown away, so that shares are equal
    padded = torch.cat([rows, rows[:1].expand(missing)])
    own = padded[share(len(padded))].cpu().numpy().astype(np.int64)

    def some(part: slice) -> Float[Tensor, "m d"]:
        return embed(model, tokens.features(own[part], rows.device), "document", unit=unit)

    return gather_with_gradients(in_mini_batches(some, len(own), mini_batch_size))[: len(rows)]


def full_precision(like: Tensor) -> torch.autocast:
    """Switch mixed precision off: the encoders may run in bfloat16, scores and losses may not."""
    return torch.autocast(like.device.type, enabled=False)


def membership(place: Int[Tensor, "b m"], candidates: int) -> Bool[Tensor, "b c"]:
    """Mark which candidates each query chose itself."""
    mask = torch.zeros(len(place), candidates, dtype=torch.bool, device=place.device)
    return mask.scatter_(1, place, True)
