"""The estimates against a world where the truth is known."""

import numpy as np
import pytest
import torch

from unstale.migrate.validate import Interval, mean_interval, neighbour_overlap


def test_student_intervals_by_the_tables() -> None:
    # t(0.975) is 2.262 for 9 degrees of freedom, 4.303 for 2.
    assert Interval.around(0.5, 0.01, 9).high == pytest.approx(0.5 + 0.2262, abs=1e-3)
    assert Interval.around(0.5, 0.0001, 2).low == pytest.approx(0.5 - 0.04303, abs=1e-5)
    # Values 0 and 1: mean 0.5, variance 0.5 over 2; the interval is cut to what a mean can be.
    found = mean_interval(np.array([0.0, 1.0]))
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)


def world(noise: float, seed: int, n: int = 1500, d: int = 12):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(30, d, generator=generator)
    corrected = centres[torch.randint(30, (n,), generator=generator)]
    corrected = corrected + 0.5 * torch.randn(n, d, generator=generator)
    fresh = corrected + noise * torch.randn(n, d, generator=generator)
    return corrected, fresh, torch.randn(400, d, generator=generator)


def truth(queries, corrected, fresh) -> float:
    found, true = ((queries @ v.T).topk(10, dim=1).indices for v in (corrected, fresh))
    return (true[:, :, None] == found[:, None, :]).any(2).float().mean().item()


def pieces(vectors, size=400):
    return lambda: ((s, vectors[s : s + size]) for s in range(0, len(vectors), size))


def test_no_error_is_a_full_overlap() -> None:
    corrected, _, queries = world(0.0, 0)
    rows = torch.arange(0, 1500, 10)
    found, _ = neighbour_overlap(
        queries, pieces(corrected), rows, corrected[rows], torch.zeros(50, 12)
    )
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_everything_embedded_is_the_truth_itself() -> None:
    corrected, fresh, queries = world(0.5, 1)
    found, _ = neighbour_overlap(
        queries, pieces(corrected), torch.arange(1500), fresh, (fresh - corrected)[:50]
    )
    assert found.value == pytest.approx(truth(queries, corrected, fresh), abs=1e-6)


def test_what_the_index_finds_comes_along_at_least_ten_targets() -> None:
    corrected, fresh, queries = world(0.5, 1)
    rows = torch.arange(0, 1500, 10)
    _, found = neighbour_overlap(
        queries, pieces(corrected), rows, fresh[rows], (fresh - corrected)[rows], k=3
    )
    assert torch.equal(found.rows, (queries @ corrected.T).topk(10, dim=1).indices)


@pytest.mark.parametrize("noise", [0.1, 0.4])
def test_the_intervals_hold_the_truth(noise: float) -> None:
    corrected, fresh, queries = world(noise, 2)
    whole = truth(queries, corrected, fresh)
    held = 0
    for seed in range(20):
        rows = torch.from_numpy(np.random.default_rng(seed).permutation(1500)[:60])
        some = torch.from_numpy(np.random.default_rng(seed).permutation(400)[:150])
        errors = (fresh - corrected)[rows]
        found, _ = neighbour_overlap(
            queries[some], pieces(corrected), rows, fresh[rows], errors, seed=seed
        )
        held += found.holds(whole)
        assert found.high - found.low < 0.2
    assert held >= 17
