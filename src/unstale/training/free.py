"""What is wrong with targets that were not encoded, told by those that were.

A miner's view of a target is off by some error. Targets just encoded show it, and at every step:

- Its mean is common to all that is cached. Queries would learn to tell cached targets from fresh
  ones by it, and not good ones from bad: it is taken from the vectors.
- The rest is noise n in the logits, by which a softmax overrates them: the mean of exp(s + n) is
  exp(s + var(n) / 2). That much is taken from their logits.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.distributed import gather


@torch.no_grad()
def rectify(
    free: Float[Tensor, "e d"],
    missed: Float[Tensor, "c d"],
    queries: Float[Tensor, "b d"],
    label: Int[Tensor, " b"],
    scale: float | Tensor,
) -> tuple[Float[Tensor, "e d"], Float[Tensor, ""]]:
    """Return free targets as they would be but for the mean error, and what their logits have less.

    Args:
        free: Targets as the miner sees them.
        missed: What its view is off by for those that were encoded, which all processes share.
        queries: This process's.
        label: The place of each query's positive among the encoded: not a negative, and left out.
        scale: The paper's beta.
    """
    mean = missed.mean(dim=0)
    noise = (scale * queries @ (missed - mean).T).scatter(1, label[:, None], 0.0)
    return free - mean, gather(noise.square().mean()[None]).mean() / 2
