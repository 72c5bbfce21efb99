"""Random numbers that are a function of what they are for.

A draw is keyed by (seed, step, query, row): nothing else that happens in a run, an interruption,
another number of processes, the meter, can change it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_AT_ONCE = 2**20  # rows that are numbered together
_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


# What a draw is for: no two uses share their bits.
UNIFORM, GUMBEL, SUBSET, ANSWER, GIVEN = range(5)


def bits(
    purpose: int, seed: int, step: int, queries: Int[Tensor, " b"], rows: Int[Tensor, " n"]
) -> Int[Tensor, "b n"]:
    """Hash each (purpose, seed, step, query, row) to 63 random bits, by SplitMix64's finaliser."""
    seeds = torch.tensor([purpose, seed, step])  # in main memory: no device waits for the key
    key = int(_mix(_mix(_mix(seeds[0]) + seeds[1] * _GOLDEN) + seeds[2] * _GOLDEN))
    keys = _mix(key + queries.to(rows.device).long() * _GOLDEN)
    return _mix(keys[:, None] + rows.long()[None, :] * _GOLDEN) & 0x7FFFFFFFFFFFFFFF


def _mix(z: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    z = z + _GOLDEN
    for places, factor in ((30, _MIX_1), (27, _MIX_2), (31, 1)):
        # The mask fills with zeros from the left, where torch's shift fills with the sign.
        z = (z ^ (z >> places) & ((1 << (64 - places)) - 1)) * factor
    return z


def subset(targets: int, size: int, seed: int, step: int) -> Int[Tensor, " size"]:
    """Draw a uniform subset of all rows, sorted; a function of its arguments.

    Every row has a random number, and those with the smallest are drawn. They are compared a piece
    of the corpus at a time, so that 21 million numbers are never held at once.
    """
    query = torch.zeros(1, dtype=torch.long)
    rows = numbers = torch.zeros(0, dtype=torch.long)
    for start in range(0, targets, _AT_ONCE):
        piece = torch.arange(start, min(start + _AT_ONCE, targets))
        rows = torch.cat([rows, piece])
        numbers = torch.cat([numbers, bits(SUBSET, seed, step, query, piece)[0]])
        kept = numbers.topk(min(size, len(numbers)), largest=False, sorted=False).indices
        rows, numbers = rows[kept], numbers[kept]
    return rows.sort().values


def gumbel(
    seed: int, scale: float, step: int, queries: Int[Tensor, " b"], rows: Int[Tensor, " n"]
) -> Float[Tensor, "b n"]:
    """Return the noise to add to scores `q.b` before the top k: Gumbel(0, 1) / scale.

    It turns a top k into a sample without replacement from the softmax (the Gumbel-max trick).
    """
    random = bits(GUMBEL, seed, step, queries, rows) >> 10  # 53 bits, all that a double holds
    uniform = (random.double() + 0.5) * 2.0**-53
    return (-torch.log(-torch.log(uniform)) / scale).float()
