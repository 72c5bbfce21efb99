import math

import pytest
import torch

from unstale.corrector.losses import LOSSES, cross_entropy, mean_distance, mean_squared_error
from unstale.corrector.network import Corrector


def test_cross_entropy_by_hand() -> None:
    # One query (1), two targets at 0 and 1, seen by h at 0 and 2; scale ln 2.
    # P = (1, 2) / 3; P_h = (1, 4) / 5. KL = 1/3 ln(5/3) + 2/3 ln(5/6).
    expected = math.log(5 / 3) / 3 + 2 * math.log(5 / 6) / 3
    q, fresh = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0]])
    found = cross_entropy(q, fresh, torch.tensor([[0.0], [2.0]]), math.log(2))
    assert found.item() == pytest.approx(expected, abs=1e-6)


def test_mean_squared_error_by_hand() -> None:
    # Squared distances 3^2 + 4^2 = 25 and 0, their mean 12.5.
    fresh = torch.tensor([[3.0, 4.0], [1.0, 1.0]])
    corrected = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert mean_squared_error(torch.ones(1, 2), fresh, corrected, 20.0).item() == 12.5


def test_mean_distance_and_its_gradient_by_hand() -> None:
    # Distances 5 (3-4-5) and 0, their mean 2.5. The gradient of the first is the unit vector from
    # fresh to corrected, halved by the mean; the second has met its target and stays.
    fresh = torch.tensor([[3.0, 4.0], [1.0, 1.0]])
    corrected = torch.tensor([[0.0, 0.0], [1.0, 1.0]], requires_grad=True)
    loss = mean_distance(torch.ones(1, 2), fresh, corrected, 20.0)
    assert loss.item() == 2.5
    (gradient,) = torch.autograd.grad(loss, corrected)
    assert gradient.flatten().tolist() == pytest.approx([-0.3, -0.4, 0.0, 0.0])
    # At a tenth of the distance the pull is the same; that of the squared distance, (-3, -4) where
    # it began, is a tenth.
    near = (fresh + 0.1 * (corrected - fresh)).detach().requires_grad_()
    given = torch.ones(1, 2), fresh, near, 20.0
    (same,) = torch.autograd.grad(mean_distance(*given), near)
    (less,) = torch.autograd.grad(mean_squared_error(*given), near)
    assert same[0].tolist() == pytest.approx([-0.3, -0.4], abs=1e-6)
    assert less[0].tolist() == pytest.approx([-0.3, -0.4], abs=1e-6)
    (whole,) = torch.autograd.grad(mean_squared_error(*given[:2], corrected, 20.0), corrected)
    assert whole[0].tolist() == pytest.approx([-3.0, -4.0])


def test_within_limits_each_querys_softmax() -> None:
    torch.manual_seed(0)
    q, fresh, corrected = torch.randn(2, 4), torch.randn(5, 4), torch.randn(5, 4)
    within = torch.tensor([[True, True, False, True, False], [False, True, True, False, True]])
    alone = [
        cross_entropy(q[i : i + 1], fresh[within[i]], corrected[within[i]], 3.0) for i in (0, 1)
    ]
    found = cross_entropy(q, fresh, corrected, 3.0, within)
    torch.testing.assert_close(found, (alone[0] + alone[1]) / 2)


def test_has_the_gradient_of_the_cross_entropy_of_p_and_p_h() -> None:
    torch.manual_seed(0)
    q, fresh = torch.randn(3, 4), torch.randn(5, 4)
    corrected = torch.randn(5, 4, requires_grad=True)
    p = torch.softmax(2.0 * q @ fresh.T, dim=1)
    written = -(p * torch.log_softmax(2.0 * q @ corrected.T, dim=1)).sum(1).mean()
    (expected,) = torch.autograd.grad(written, corrected)
    (found,) = torch.autograd.grad(cross_entropy(q, fresh, corrected, 2.0), corrected)
    torch.testing.assert_close(found, expected)


def test_blind_to_a_common_shift_which_mse_sees() -> None:
    torch.manual_seed(0)
    q, fresh = torch.randn(3, 4), torch.randn(5, 4)
    shifted = fresh + torch.randn(4)
    assert cross_entropy(q, fresh, shifted, 2.0).item() == pytest.approx(0, abs=1e-6)
    assert mean_squared_error(q, fresh, shifted, 2.0).item() > 0.1


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_perfect_corrector_has_no_loss_and_nothing_else_a_gradient(name: str) -> None:
    torch.manual_seed(0)
    q = torch.randn(3, 4, requires_grad=True)
    fresh = torch.randn(5, 4, requires_grad=True)
    assert LOSSES[name](q, fresh, fresh.detach(), 2.0).item() == pytest.approx(0, abs=1e-6)
    LOSSES[name](q, fresh, Corrector(4, (8,))(torch.randn(5, 4)), 2.0).backward()
    assert q.grad is None
    assert fresh.grad is None
