"""The estimates against a world where the truth is known."""

import numpy as np
import pytest
import torch

from unstale.migration.index import Known
from unstale.migration.law import Law
from unstale.migration.validate import Interval, Pairs, mean_interval, neighbour_overlap


def test_student_intervals_by_the_tables() -> None:
    # t(0.975) is 2.262 for 9 degrees of freedom, 4.303 for 2.
    assert Interval.around(0.5, 0.01, 9).high == pytest.approx(0.5 + 0.2262, abs=1e-3)
    assert Interval.around(0.5, 0.0001, 2).low == pytest.approx(0.5 - 0.04303, abs=1e-5)
    # Values 0 and 1: mean 0.5, variance 0.5 over 2; the interval is cut to what a mean can be.
    found = mean_interval(np.array([0.0, 1.0]))
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)
    alone = mean_interval(np.array([0.25]), least=-1.0)  # one value says nothing about the others
    assert (alone.value, alone.low, alone.high) == (0.25, -1.0, 1.0)


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
    return ((s, vectors[s : s + size]) for s in range(0, len(vectors), size))


def test_no_error_is_a_full_overlap() -> None:
    corrected, _, queries = world(0.0, 0)
    rows = torch.arange(0, 1500, 10)
    pairs = Pairs(corrected[:50], corrected[:50])
    found, _ = neighbour_overlap(queries, pieces(corrected), Known(rows, corrected[rows]), pairs)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_everything_embedded_is_the_truth_itself() -> None:
    corrected, fresh, queries = world(0.5, 1)
    pairs = Pairs(corrected[:50], fresh[:50])
    found, _ = neighbour_overlap(
        queries, pieces(corrected), Known(torch.arange(1500), fresh), pairs
    )
    assert found.value == pytest.approx(truth(queries, corrected, fresh), abs=1e-6)


def test_what_the_index_finds_comes_along_at_least_ten_targets() -> None:
    corrected, fresh, queries = world(0.5, 1)
    rows = torch.arange(0, 1500, 10)
    pairs = Pairs(corrected[rows], fresh[rows])
    _, found = neighbour_overlap(queries, pieces(corrected), Known(rows, fresh[rows]), pairs, k=3)
    assert torch.equal(found.rows, (queries @ corrected.T).topk(10, dim=1).indices)


def test_pieces_do_not_matter_and_one_query_says_nothing_about_the_others() -> None:
    corrected, fresh, queries = world(0.5, 1)
    rows = torch.arange(0, 1500, 10)
    pairs = Pairs(corrected[rows], fresh[rows])
    whole, parts = (
        neighbour_overlap(queries, pieces(corrected, size), Known(rows, fresh[rows]), pairs)[0]
        for size in (1500, 700)
    )
    assert whole == parts
    found, _ = neighbour_overlap(queries[:1], pieces(corrected), Known(rows, fresh[rows]), pairs)
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize("held", [1, 2, 9])
def test_few_held_out_targets_say_nothing(held: int) -> None:
    corrected, fresh, queries = world(0.5, 1)
    rows = torch.arange(0, 1500, 10)
    pairs = Pairs(corrected[rows[:held]], fresh[rows[:held]])
    found, _ = neighbour_overlap(queries, pieces(corrected), Known(rows, fresh[rows]), pairs)
    assert (found.low, found.high) == (0.0, 1.0)


def test_held_out_targets_may_ask() -> None:
    # Each has itself as its nearest: taken for one among others, that bends the law.
    errors = []
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        fresh = torch.nn.functional.normalize(torch.randn(3000, 16, generator=generator), dim=1)
        corrected = fresh + 0.2 * torch.randn(3000, 16, generator=generator) / 4
        rows = torch.arange(0, 3000, 10)
        index, pairs = corrected.clone(), Pairs(corrected[rows[:60]], fresh[rows[:60]])
        index[rows] = fresh[rows]
        own = rows[:40]
        found, _ = neighbour_overlap(
            fresh[own], pieces(index), Known(rows, fresh[rows]), pairs, k=2, asking=own
        )
        scores = [fresh[own] @ vectors.T for vectors in (index, fresh)]
        for both in scores:
            both[torch.arange(40), own] = -torch.inf  # nobody is a neighbour of itself
        ours, true = (both.topk(2, dim=1).indices for both in scores)
        shared = (true[:, :, None] == ours[:, None, :]).any(2).float().mean().item()
        errors.append(found.value - shared)
    assert abs(np.mean(errors)) < 0.1


@pytest.mark.parametrize("k", [50, 200, 400])
def test_neighbours_that_are_not_near(k: int) -> None:
    corrected, fresh, queries = world(0.5, 3, n=600)
    rows = torch.arange(0, 600, 5)
    index = corrected.clone()
    index[rows] = fresh[rows]
    pairs = Pairs(corrected[rows[:40]], fresh[rows[:40]])
    found, _ = neighbour_overlap(queries, pieces(index), Known(rows, fresh[rows]), pairs, k)
    ours, true = ((queries @ v.T).topk(k, dim=1).indices for v in (index, fresh))
    assert found.holds((true[:, :, None] == ours[:, None, :]).any(2).float().mean().item())


def test_a_law_is_what_the_scores_follow() -> None:
    generator = torch.Generator().manual_seed(0)
    corrected = torch.randn(200, generator=generator).expand(30, -1)
    own = torch.randn(30, 1, generator=generator)  # what a query's targets have in common
    fresh = own + 3 * corrected + corrected.square()
    law = Law.fit(corrected, fresh, torch.ones_like(fresh, dtype=torch.bool))
    near = torch.linspace(1.5, 4, 50).expand(30, -1)
    drawn = law.draw(near, torch.rand(30, 50, generator=generator))
    torch.testing.assert_close(drawn, own + 3 * near + near.square(), atol=1e-2, rtol=0)
    assert law.draw(torch.full((30, 1), -1.0), torch.zeros(30, 1)).eq(-torch.inf).all()  # not near


def test_a_law_scatters_as_the_scores_do() -> None:
    generator = torch.Generator().manual_seed(0)
    corrected = torch.randn(100, 800, generator=generator)
    noise = torch.randn(100, 800, generator=generator) * (0.2 * corrected).exp()
    law = Law.fit(corrected, 3 * corrected + noise, torch.ones_like(noise, dtype=torch.bool))
    for at in (1.5, 3.0):
        near = torch.full((100, 2000), at)
        drawn = law.draw(near, torch.rand(near.shape, generator=generator))
        deviation = drawn.std(dim=1).mean().item()
        assert deviation == pytest.approx(np.exp(0.2 * at), rel=0.1)


def test_a_law_never_ranks_a_higher_score_lower_for_its_bend() -> None:
    generator = torch.Generator().manual_seed(0)
    corrected = torch.randn(50, 100, generator=generator)
    fresh = 2 * corrected - 0.2 * corrected.square()  # falls from 5 on, which none has reached
    law = Law.fit(corrected, fresh, torch.ones_like(fresh, dtype=torch.bool))
    far = torch.linspace(2, 9, 60).expand(50, -1)
    assert (law.draw(far, torch.zeros(50, 60)).diff(dim=1) > -1e-2).all()
