"""Run the encoders on a step's queries and candidates, with gradients.

In mini-batches this is GradCache: the embeddings of all mini-batches are computed first, none of
their activations kept; the loss sees the whole batch; in the backward pass each mini-batch is
encoded again, with the same dropout. In torch's words, every mini-batch is a checkpoint.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from unstale.data.tokens import TokenStore
from unstale.distributed import gather_with_gradients, share, world
from unstale.encoders.embed import embed


@final
class Encoding(NamedTuple):
    """How texts are encoded: to unit length or not, and how many at a time (0: all at once)."""

    unit: bool
    mini_batch_size: int = 0


def encode_queries(
    model: SentenceTransformer, features: dict[str, Any], how: Encoding
) -> Float[Tensor, "b d"]:
    """Encode a batch of tokenised queries."""

    def some(part: slice) -> Float[Tensor, "m d"]:
        rows = {k: v[part] if torch.is_tensor(v) else v for k, v in features.items()}
        return embed(model, rows, "query", unit=how.unit)

    if "offsets" in features:  # flat tokens: static embeddings, with no activations to save
        return embed(model, features, "query", unit=how.unit).float()
    return in_mini_batches(some, len(features["input_ids"]), how.mini_batch_size).float()


def encode_targets(
    model: SentenceTransformer,
    tokens: TokenStore,
    rows: Int[Tensor, " c"],
    how: Encoding,
) -> Float[Tensor, "c d"]:
    """Encode targets, an equal share in each process; gradients come from all processes."""
    missing = -len(rows) % world()  # encoded and thrown away, so that shares are equal
    padded = torch.cat([rows, rows[:1].expand(missing)])
    own = padded[share(len(padded))].cpu().numpy().astype(np.int64)

    def some(part: slice) -> Float[Tensor, "m d"]:
        return embed(model, tokens.features(own[part], rows.device), "document", unit=how.unit)

    encoded = gather_with_gradients(in_mini_batches(some, len(own), how.mini_batch_size))
    return encoded[: len(rows)].float()


def in_mini_batches(
    encode: Callable[[slice], Float[Tensor, "m ..."]], count: int, size: int
) -> Float[Tensor, "n ..."]:
    """Encode `count` rows, `size` at a time; 0 encodes all at once and keeps the activations.

    Example:
        >>> weight = torch.ones(2, requires_grad=True)
        >>> vectors = in_mini_batches(lambda part: torch.ones(5, 2)[part] * weight, 5, 2)
        >>> vectors.shape, vectors.sum().backward(), weight.grad.tolist()
        (torch.Size([5, 2]), None, [5.0, 5.0])
    """
    if not size or count <= size:
        return encode(slice(0, count))
    parts = [slice(start, start + size) for start in range(0, count, size)]
    return torch.cat([checkpoint(encode, part, use_reentrant=False) for part in parts])


def as_trained(trainer: Mapping[str, Any], device: torch.device) -> torch.autocast:
    """Encode in the precision that the trainer's arguments ask for, before there is a trainer.

    From its first step on, the Trainer does this to every call of the model.
    """
    half = torch.float16 if trainer.get("fp16") else torch.bfloat16
    mixed = bool(trainer.get("bf16") or trainer.get("fp16"))
    return torch.autocast(device.type, half, enabled=mixed)


def full_precision(like: Tensor) -> torch.autocast:
    """Switch mixed precision off: the encoders may run in bfloat16, scores and losses may not."""
    return torch.autocast(like.device.type, enabled=False)
