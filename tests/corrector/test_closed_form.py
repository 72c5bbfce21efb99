import pytest
import torch

from unstale.corrector.closed_form import RIDGES, _leave_one_out, least_squares, procrustes
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


@pytest.mark.parametrize(("d", "e"), [(5, 5), (4, 7), (7, 4)])
def test_procrustes_undoes_a_rotation_and_is_orthogonal(d: int, e: int) -> None:
    torch.manual_seed(0)
    square = torch.linalg.qr(torch.randn(max(d, e), max(d, e), dtype=torch.double))[0]
    stale = torch.randn(50, d, dtype=torch.double)
    found = procrustes(stale, stale @ square[:d, :e] + 2)
    inner = found.weight @ found.weight.T if d <= e else found.weight.T @ found.weight
    torch.testing.assert_close(inner, torch.eye(min(d, e), dtype=torch.double))
    if d <= e:  # nothing is lost: the rotation comes back
        torch.testing.assert_close(found(stale), stale @ square[:d, :e] + 2)


@pytest.mark.parametrize("fit", [least_squares, procrustes])
def test_bad_pairs_are_refused(fit) -> None:
    good = torch.randn(5, 3)
    bad = good.clone()
    bad[3, 1] = torch.nan
    with pytest.raises(InputError, match="fresh vectors, row 3: NaN"):
        fit(good, bad)
    with pytest.raises(InputError, match="5 stale and 4 fresh"):
        fit(good, good[:4])
    with pytest.raises(InputError, match="at least 2"):
        fit(good[:1], good[:1])
