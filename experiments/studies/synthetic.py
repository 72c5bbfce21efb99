"""The paper's synthetic worlds: stale targets from a mixture, moved by random residual MLPs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.studies.batched import Parameters, Tasks, residual_mlp, start, train_correctors

TARGETS, DIM, GAUSSIANS = 4096, 8, 20  # the paper's
WIDTHS = (DIM, 2 * DIM, 4 * DIM, 8 * DIM)
# The shapes of h and of what moves the targets, by their hidden widths: "between 0 and 2 hidden
# layers with hidden dimension of D, 2D, 4D, or 8D", and "up to 2" of the same.
SHAPES: tuple[tuple[int, ...], ...] = ((), *((w,) for w in WIDTHS), *((w, w) for w in WIDTHS))
# Not given in the paper: queries come from the mixture of the targets, as unit vectors.
QUERIES, HELD_OUT_QUERIES, SCALE = 32, 64, 10.0
CENTRES, SPREAD = 1.0, 0.5  # expected norms of a Gaussian's mean and of a deviation from it


@final
@dataclass(frozen=True)
class World:
    """One drift: where targets were, where they are, and queries seen and unseen in training."""

    stale: Float[Tensor, "n d"]
    fresh: Float[Tensor, "n d"]
    queries: Float[Tensor, "q d"]
    held_out: Float[Tensor, "u d"]

    @property
    def staleness(self) -> float:
        """Compute KL(P || P_stale) over all targets, the mean over held-out queries."""
        return divergence(self.held_out, self.fresh, self.stale)


def make_world(drift: tuple[int, ...], gain: float, seed: int) -> World:
    """Draw a world.

    Args:
        drift: Hidden widths of the random residual MLP from stale to fresh.
        gain: Its initialisation: weights have standard deviation gain / sqrt(fan in).
        seed: Of targets, queries and MLP.
    """
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(GAUSSIANS, DIM, generator=generator) * CENTRES / DIM**0.5

    def draw(n: int) -> Float[Tensor, "n d"]:
        which = torch.randint(GAUSSIANS, (n,), generator=generator)
        noise = torch.randn(n, DIM, generator=generator)
        return centres[which] + noise * SPREAD / DIM**0.5

    stale = draw(TARGETS)
    queries = torch.nn.functional.normalize(draw(QUERIES + HELD_OUT_QUERIES), dim=1)
    mover = start(1, [DIM, *drift, DIM], generator, gain)
    fresh = residual_mlp(mover, stale[None])[0]
    return World(stale, fresh, queries[:QUERIES], queries[QUERIES:])


def divergence(
    queries: Float[Tensor, "q d"], fresh: Float[Tensor, "n d"], seen: Float[Tensor, "n d"]
) -> float:
    """Compute KL(P || P_seen) over all targets, the mean over queries."""
    return Tasks.make(fresh[None], fresh[None], queries[None], SCALE).divergence(seen[None]).item()


def make_tasks(worlds: Sequence[World], rows: Sequence[Int[Tensor, " k"]]) -> Tasks:
    """Give the corrector of each world its rows of the targets to learn from."""
    return Tasks.make(
        torch.stack([w.stale[r] for w, r in zip(worlds, rows, strict=True)]),
        torch.stack([w.fresh[r] for w, r in zip(worlds, rows, strict=True)]),
        torch.stack([w.queries for w in worlds]),
        SCALE,
    )


def train_shape(
    tasks: Tasks, shape: tuple[int, ...], epochs: int, generator: torch.Generator
) -> Parameters:
    """Train a corrector of one shape on every task."""
    return train_correctors(tasks, start(len(tasks), [DIM, *shape, DIM], generator), epochs=epochs)


def held_out_divergence(worlds: Sequence[World], correctors: Parameters) -> list[float]:
    """Compute KL(P || P_h) of each world over all targets, on queries that h never saw."""
    with torch.no_grad():
        corrected = residual_mlp(correctors, torch.stack([w.stale for w in worlds]))
    return [divergence(w.held_out, w.fresh, h) for w, h in zip(worlds, corrected, strict=True)]


def shape_generator(shape: tuple[int, ...], seed: int) -> torch.Generator:
    """Return the generator of a shape's random draws."""
    return torch.Generator().manual_seed(seed + len(shape) + sum(shape))


def parameter_count(shape: tuple[int, ...]) -> int:
    """Count the parameters of a corrector by its hidden widths.

    Example:
        >>> parameter_count(()), parameter_count((8,))  # 8*8 + 8; twice that
        (72, 144)
    """
    widths = [DIM, *shape, DIM]
    return sum(a * b + b for a, b in pairwise(widths))
