import pytest
import torch

from unstale.corrector.closed_form import RIDGES, _leave_one_out, least_squares
from unstale.errors import InputError


def pairs(n: int, d: int, e: int, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(n + d)
    stale = torch.randn(n, d, dtype=torch.double) + 3
    weight, bias = torch.randn(d, e, dtype=torch.double), torch.randn(e, dtype=torch.double)
    return stale, stale @ weight + bias + noise * torch.randn(n, e, dtype=torch.double)


def test_an_affine_map_is_recovered_and_its_bias_is_not_penalised() -> None:
    stale, fresh = pairs(60, 5, 7, noise=0.0)
    torch.testing.assert_close(least_squares(stale, fresh, ridge=0.0)(stale), fresh)
    # An endless ridge leaves only the bias: the mean of the fresh vectors for every target.
    flat = least_squares(stale, fresh, ridge=1e12)(stale)
    torch.testing.assert_close(flat, fresh.mean(0).expand(60, 7), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(40, 6, 3), (10, 16, 5)])  # more pairs than dimensions, fewer
def test_the_ridge_chosen_is_the_best_by_refitting_without_each_pair(
    shape: tuple[int, int, int],
) -> None:
    stale, fresh = pairs(*shape, noise=1.0)
    n, d, _ = shape

    def refitted(penalty: float) -> float:
        errors = []
        for i in range(n):
            keep = torch.arange(n) != i
            x, y = stale[keep], fresh[keep]
            mean, goal = x.mean(0), y.mean(0)
            gram = (x - mean).T @ (x - mean) + penalty * torch.eye(d, dtype=torch.double)
            weight = torch.linalg.solve(gram, (x - mean).T @ (y - goal))
            errors.append(((stale[i] - mean) @ weight + goal - fresh[i]).square().sum())
        return float(torch.stack(errors).sum())

    # The penalty is a multiple of the mean eigenvalue of all pairs' scatter, also without one.
    unit = float((stale - stale.mean(0)).square().sum()) / d
    left, values, _ = torch.linalg.svd(stale - stale.mean(0), full_matrices=False)
    goal = fresh.mean(0)
    shadow = left.T @ (fresh - goal)
    for ridge in (1e-2, 1.0):
        found = _leave_one_out(left, values, shadow, fresh, goal, ridge * unit)
        assert found == pytest.approx(refitted(ridge * unit), rel=1e-6)
    best = min(RIDGES, key=lambda r: refitted(r * unit))
    torch.testing.assert_close(
        least_squares(stale, fresh)(stale), least_squares(stale, fresh, ridge=best)(stale)
    )


def test_bad_pairs_are_refused() -> None:
    good = torch.randn(5, 3)
    bad = good.clone()
    bad[3, 1] = torch.nan
    with pytest.raises(InputError, match="fresh vectors, row 3: NaN"):
        least_squares(good, bad)
    with pytest.raises(InputError, match="5 stale and 4 fresh"):
        least_squares(good, good[:4])
    with pytest.raises(InputError, match="at least 2"):
        least_squares(good[:1], good[:1])
