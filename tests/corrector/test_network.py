import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from unstale.corrector.losses import mean_squared_error
from unstale.corrector.network import Corrector
from unstale.errors import InputError

HIDDEN = [(), (7,), (5, 9), (4, 1030)]  # the last is more units than are held at once


def trained(dim: int, hidden: tuple[int, ...], *, unit: bool = False) -> Corrector:
    """A corrector that is no longer the identity."""
    torch.manual_seed(dim)
    network = Corrector(dim, hidden, unit=unit)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) / 3)
    return network


@pytest.mark.parametrize("hidden", HIDDEN)
def test_starts_as_the_identity(hidden: tuple[int, ...]) -> None:
    stale = torch.randn(20, 6)
    assert torch.equal(Corrector(6, hidden)(stale), stale)


@pytest.mark.parametrize(
    ("hidden", "count"),
    [
        ((), 6 * 6 + 6),
        ((7,), (6 * 7 + 7) + (7 * 6 + 6)),
        ((5, 9), (6 * 5 + 5) + (5 * 9 + 9) + (9 * 6 + 6)),
    ],
)
def test_parameter_count_is_that_of_the_formula(hidden: tuple[int, ...], count: int) -> None:
    assert Corrector(6, hidden).parameter_count == count


def test_computes_the_written_formula() -> None:
    h = trained(6, (7,))
    first, second = h.layers
    stale = torch.randn(4, 6)
    hidden = torch.clamp(stale @ first.weight.T + first.bias, min=0)
    expected = stale + hidden @ second.weight.T + second.bias
    torch.testing.assert_close(h(stale), expected)


def test_unit_output_is_the_formula_divided_by_its_norm() -> None:
    h = trained(6, (7,), unit=True)
    stale = torch.randn(4, 6)
    expected = h.unscaled(stale)
    torch.testing.assert_close(h(stale), expected / expected.square().sum(1, keepdim=True).sqrt())


def test_a_squared_error_does_not_shrink_a_unit_output() -> None:
    # The fresh vectors are noise about the stale ones, so their mean is short: h follows the mean.
    torch.manual_seed(0)
    stale = functional.normalize(torch.randn(64, 6))
    norms = {}
    for unit in (False, True):
        h = Corrector(6, (16,), unit=unit)
        optimizer = torch.optim.Adam(h.parameters(), 1e-2)
        for _ in range(200):
            fresh = functional.normalize(stale + 0.6 * torch.randn(64, 6))
            optimizer.zero_grad()
            mean_squared_error(stale[:1], fresh, h(stale), 20.0).backward()
            optimizer.step()
        norms[unit] = h(stale).norm(dim=1).mean().item()
    assert norms[True] == pytest.approx(1.0)
    assert norms[False] < 0.8


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("queries", [1, 3, 6, 11])  # fewer than the 6 dimensions, and more
@settings(max_examples=20)
@given(rows=st.integers(1, 30))
def test_folded_scores_equal_the_literal_recipe_gradients_too(
    hidden: tuple[int, ...], queries: int, unit: bool, rows: int
) -> None:
    h = trained(6, hidden, unit=unit).double()
    q = torch.randn(queries, 6, dtype=torch.double, requires_grad=True)
    stale = torch.randn(rows, 6, dtype=torch.double)
    weight = torch.randn(queries, rows, dtype=torch.double)
    leaves = [q, *h.parameters()]
    folded, literal = h.scores(q, stale), q @ h(stale).T
    torch.testing.assert_close(folded, literal)
    ours = torch.autograd.grad((folded * weight).sum(), leaves)
    theirs = torch.autograd.grad((literal * weight).sum(), leaves)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_a_width_of_zero_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        Corrector(4, (0,))
