"""A linearised corrector: exact where h is linear, near where it is not."""

import torch

from unstale.buffer.stored import Stored
from unstale.corrector.network import Corrector
from unstale.search.linear import Landmarks, Linearised, Neighbourhood


def randomised(*hidden: int) -> Corrector:
    network = Corrector(6, hidden).requires_grad_(False)
    for parameter in network.parameters():
        parameter.normal_(std=0.4)
    return network


def test_without_hidden_layers_it_is_the_corrector() -> None:
    torch.manual_seed(0)
    h, stale, queries = randomised(), torch.randn(20, 6), torch.randn(3, 6)
    around = Neighbourhood(torch.randn(3, 6), torch.ones(3, 1))
    linear = Linearised(h, around)
    offset = (queries * linear.mean).sum(dim=1) - (linear.pull_back(queries) * around.centre).sum(1)
    scores = linear.pull_back(queries) @ stale.T + offset[:, None]
    torch.testing.assert_close(scores, queries @ h(stale).T)


def test_in_a_point_it_is_the_gradient_and_the_value() -> None:
    torch.manual_seed(1)
    for h in (randomised(9), randomised(9, 5)):
        point, queries = torch.randn(4, 6), torch.randn(4, 6)
        linear = Linearised(h, Neighbourhood(point, torch.zeros(4, 1)))
        with torch.enable_grad():
            leaf = point.clone().requires_grad_()
            (gradient,) = torch.autograd.grad((queries * h(leaf)).sum(), leaf)
        torch.testing.assert_close(linear.pull_back(queries), gradient)
        torch.testing.assert_close(linear.mean, h(point))


def test_over_a_spread_it_is_the_best_line() -> None:
    # For normal x, the least-squares line through relu(x) has the slope P(x > 0).
    torch.manual_seed(2)
    h, centre = randomised(9), torch.randn(1, 6)
    stale = centre + 0.7 * torch.randn(200_000, 6)
    linear = Linearised(h, Neighbourhood(centre, torch.tensor([[0.7]])))
    corrected = h(stale)
    torch.testing.assert_close(linear.mean, corrected.mean(0, keepdim=True), atol=0.02, rtol=0)
    fitted = torch.linalg.lstsq(stale - stale.mean(0), corrected - corrected.mean(0)).solution
    torch.testing.assert_close(linear.pull_back(torch.eye(6)), fitted.T, atol=0.02, rtol=0)


def test_solve_undoes_pull_back() -> None:
    torch.manual_seed(3)
    h = randomised(9)
    linear = Linearised(h, Neighbourhood(torch.randn(4, 6), torch.ones(4, 1)))
    wanted = torch.randn(4, 6)
    found = linear.solve(linear.pull_back(wanted), start=torch.zeros(4, 6), rounds=300)
    torch.testing.assert_close(linear.pull_back(found), linear.pull_back(wanted), atol=1e-3, rtol=0)
    near = linear.solve(linear.pull_back(wanted), start=wanted)
    torch.testing.assert_close(near, wanted)


def test_landmarks_find_the_cluster_of_a_query() -> None:
    torch.manual_seed(4)
    centres = 10 * torch.eye(6)[:3]
    stale = centres.repeat_interleave(100, dim=0) + 0.1 * torch.randn(300, 6)
    around = Landmarks(Stored.of(stale, "float32"), 300, seed=0).around(None, torch.eye(6)[:3])
    torch.testing.assert_close(around.centre, centres, atol=0.2, rtol=0)
    assert ((around.spread > 0.05) & (around.spread < 0.15)).all()
