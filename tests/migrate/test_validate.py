"""The estimates against a world where the truth is known."""

import numpy as np
import pytest
import torch

from unstale.migrate.interval import Interval, mean_interval
from unstale.migrate.validate import Moves, neighbour_overlap, part_turned


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
    return lambda: ((s, vectors[s : s + size]) for s in range(0, len(vectors), size))


def test_no_error_is_a_full_overlap() -> None:
    corrected, _, queries = world(0.0, 0)
    rows = torch.arange(0, 1500, 10)
    moves = Moves(corrected[:50], corrected[:50])
    found, _ = neighbour_overlap(queries, pieces(corrected), rows, corrected[rows], moves)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_everything_embedded_is_the_truth_itself() -> None:
    corrected, fresh, queries = world(0.5, 1)
    moves = Moves(corrected[:50], fresh[:50])
    found, _ = neighbour_overlap(queries, pieces(corrected), torch.arange(1500), fresh, moves)
    assert found.value == pytest.approx(truth(queries, corrected, fresh), abs=1e-6)


def test_what_the_index_finds_comes_along_at_least_ten_targets() -> None:
    corrected, fresh, queries = world(0.5, 1)
    rows = torch.arange(0, 1500, 10)
    moves = Moves(corrected[rows], fresh[rows])
    _, found = neighbour_overlap(queries, pieces(corrected), rows, fresh[rows], moves, k=3)
    assert torch.equal(found.rows, (queries @ corrected.T).topk(10, dim=1).indices)


def test_pieces_do_not_matter_and_one_query_says_nothing_about_the_others() -> None:
    corrected, fresh, queries = world(0.5, 1)
    rows = torch.arange(0, 1500, 10)
    moves = Moves(corrected[rows], fresh[rows])
    # One move alone can be drawn, so that the draws are the same whatever the pieces.
    alike = Moves(moves.corrected[:1].expand(20, -1), moves.fresh[:1].expand(20, -1))
    whole, parts = (
        neighbour_overlap(queries, pieces(corrected, size), rows, fresh[rows], alike)[0]
        for size in (1500, 700)
    )
    assert whole.value == pytest.approx(parts.value, abs=1e-6)
    found, _ = neighbour_overlap(queries[:1], pieces(corrected), rows, fresh[rows], moves)
    assert (found.low, found.high) == (0.0, 1.0)


def test_a_turned_move_keeps_lengths_and_angles() -> None:
    generator = torch.Generator().manual_seed(0)
    one, end, other = (torch.randn(40, 6, generator=generator) for _ in range(3))
    other = torch.nn.functional.normalize(other, dim=1) * one.norm(dim=1, keepdim=True)
    ends = Moves(one, end).turned(other)
    torch.testing.assert_close(ends.norm(dim=1), end.norm(dim=1))
    torch.testing.assert_close((ends * other).sum(1), (end * one).sum(1))
    torch.testing.assert_close(Moves(one, end).turned(one), end)  # a turn by nothing
    # By a right angle in the plane: from (1, 0) to (1, 1) is from (0, 1) to (-1, 1).
    ends = Moves(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])).turned(
        torch.tensor([[0.0, 1.0]])
    )
    torch.testing.assert_close(ends, torch.tensor([[-1.0, 1.0]]))


@pytest.mark.parametrize(("turned", "believed"), [(False, 0.0), (True, 1.0)])
def test_held_out_targets_tell_whether_moves_turn(turned: bool, believed: float) -> None:
    generator = torch.Generator().manual_seed(0)
    corrected, noise, queries = (torch.randn(400, 6, generator=generator) for _ in range(3))
    corrected = torch.nn.functional.normalize(corrected, dim=1)
    # Each loses most of its own vector, so that noise counts for more; or all lose the same, which
    # would change their order if it were turned another way for each.
    fresh = 0.3 * corrected + 0.2 * noise if turned else corrected - noise[0]
    assert part_turned(queries, Moves(corrected, fresh)) == pytest.approx(believed, abs=0.25)
