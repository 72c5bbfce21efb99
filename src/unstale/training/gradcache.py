"""GradCache: a batch as large as wanted, with the activations of one mini-batch in memory.

The vectors of all mini-batches are computed first, none of their activations kept; the loss sees
the whole batch; on the way back each mini-batch is encoded again, with the same dropout, and takes
the gradient of its vectors. In torch's words, every mini-batch is a checkpoint.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def in_mini_batches(
    encode: Callable[[slice], Float[Tensor, "m d"]], count: int, size: int
) -> Float[Tensor, "n d"]:
    """Encode `count` rows, `size` at a time; 0 for all at once, activations kept.

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
