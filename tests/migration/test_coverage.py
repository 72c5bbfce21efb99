"""The intervals of the overlap against the truth, where errors depend on where a target lies."""

from functools import cache

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from unstale.migration.index import Known
from unstale.migration.learn import learn
from unstale.migration.settings import MigrateSettings
from unstale.migration.validate import Pairs, neighbour_overlap

ROWS, QUERIES, ASKED, K = 1500, 600, 200, 10
WORLDS = {  # width, the old encoder's width, unit vectors?, noise, and how unlike directions are
    "low unit": (8, 8, True, 0.25, 0.0),
    "high unit": (64, 48, True, 0.5, 0.5),
    "unnormalised": (12, 12, False, 0.25, 0.0),
}


@cache
def world(kind: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw fresh targets; the stale ones were moved by a network, turned, and blurred."""
    width, old, unit, noise, decay = WORLDS[kind]
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    spread = torch.arange(1, width + 1.0) ** -decay
    spread = spread / spread.norm()
    centres = normal(30, width) * spread
    fresh = centres[torch.randint(30, (ROWS,), generator=generator)] + normal(ROWS, width) * spread
    near = torch.randint(ROWS, (QUERIES,), generator=generator)
    queries = fresh[near] + 0.6 * normal(QUERIES, width) * spread
    bent = torch.relu(fresh @ normal(width, 4 * width) / width**0.5) @ normal(4 * width, width)
    stale = fresh + 0.25 * bent / width**0.5 + noise * normal(ROWS, width) * spread
    stale = stale @ torch.linalg.qr(normal(width, width)).Q[:, :old]
    if unit:
        return normalize(stale, dim=1), normalize(fresh, dim=1), normalize(queries, dim=1)
    return stale, fresh, queries


def held(kind: str, size: int, resamples: int = 20) -> tuple[int, float, float]:
    """Migrate with many samples: how many intervals hold, the mean error, the mean half-width."""
    stale, fresh, queries = world(kind)
    holds, errors, widths = 0, [], []
    for seed in range(resamples):
        generator = np.random.default_rng(seed)
        rows = torch.from_numpy(generator.permutation(ROWS)[:size])
        out = np.arange(size) < max(20, size // 5)
        asked = torch.from_numpy(generator.permutation(QUERIES)[:ASKED])
        learned = learn(stale[rows], fresh[rows], out, MigrateSettings(method="linear"))
        with torch.no_grad():
            index = learned.corrector(stale)
        pairs = Pairs(index[rows[out]], fresh[rows[out]])
        index[rows] = fresh[rows]
        ours, true = ((queries @ v.T).topk(K, dim=1).indices for v in (index, fresh))
        truth = (true[:, :, None] == ours[:, None, :]).any(2).float().mean().item()
        found, _ = neighbour_overlap(
            queries[asked], [(0, index)], Known(rows, fresh[rows]), pairs, K, seed
        )
        holds += found.holds(truth)
        errors.append(found.value - truth)
        widths.append((found.high - found.low) / 2)
    return holds, float(np.mean(errors)), float(np.mean(widths))


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("low unit", 60),
        *(pytest.param(kind, 60, marks=pytest.mark.slow) for kind in WORLDS if kind != "low unit"),
        *(pytest.param(kind, 300, marks=pytest.mark.slow) for kind in WORLDS),
    ],
)
def test_at_least_17_of_20_intervals_hold(kind: str, size: int) -> None:
    holds, error, width = held(kind, size)
    assert holds >= 17, (error, width)
    assert width < (0.35 if size < 100 else 0.1)  # twenty held-out targets cannot tell much
