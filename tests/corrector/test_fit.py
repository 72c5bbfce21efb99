import pytest
import torch

from unstale.corrector.closed_form import Affine, least_squares
from unstale.corrector.fit import fit
from unstale.corrector.losses import cross_entropy, mean_squared_error
from unstale.corrector.network import Corrector
from unstale.corrector.projected import ProjectedCorrector
from unstale.errors import InputError


def drifted(n: int = 200, d: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Stale vectors, where a random network took them, and queries."""
    torch.manual_seed(1)
    stale = torch.randn(n, d)
    hidden = torch.relu(stale @ torch.randn(d, 12) + torch.randn(12))
    return stale, stale + 0.4 * hidden @ torch.randn(12, d), torch.randn(40, d)


@pytest.mark.parametrize("loss", ["ce", "mse"])
def test_lowers_what_it_promises_to_on_targets_it_never_saw(loss) -> None:
    stale, fresh, queries = drifted(400)
    h = Corrector(6, (32,))
    asked = queries if loss == "ce" else None
    fit(h, stale[:300], fresh[:300], queries=asked, scale=2.0, epochs=150, learning_rate=0.03)
    with torch.no_grad():
        corrected = h(stale[300:])
    if loss == "ce":
        before, after = (
            cross_entropy(queries, fresh[300:], v, 2.0) for v in (stale[300:], corrected)
        )
    else:
        before, after = (
            mean_squared_error(queries, fresh[300:], v, 1.0) for v in (stale[300:], corrected)
        )
    assert after < before / 3


def test_cross_entropy_alone_drifts_off_by_a_common_vector_and_the_anchor_holds_it() -> None:
    # "Cross-entropy leaves h free up to a vector common to all targets": start h off by one.
    stale, fresh, queries = drifted()
    ends = {}
    for anchor in (0.0, 1.0):
        torch.manual_seed(0)
        h = Corrector(6, (32,))
        with torch.no_grad():
            h.last.bias.fill_(3.0)
        fit(h, stale, fresh, queries=queries, scale=2.0, anchor=anchor, epochs=150,
            learning_rate=0.03)  # fmt: skip
        with torch.no_grad():
            ends[anchor] = (h(stale) - fresh).mean(dim=0).norm()
    assert ends[0.0] > 1
    assert ends[1.0] < 0.1


def test_stops_after_patience_epochs_and_keeps_the_best_weights() -> None:
    stale, fresh, _ = drifted(40)
    held_out = torch.arange(40) >= 30
    h = Corrector(6, (64, 64))
    done = fit(h, stale, fresh, held_out=held_out, learning_rate=0.03, epochs=500, patience=20)
    assert done.epochs == done.best_epoch + 20 < 500
    with torch.no_grad():
        error = mean_squared_error(fresh[:1], fresh[held_out], h(stale[held_out]), 1.0).item()
    assert error == pytest.approx(done.best_loss, rel=1e-5)
    assert done.best_loss < done.start_loss


def test_a_start_that_cannot_be_bettered_is_kept() -> None:
    stale, _, _ = drifted(40)
    h = Corrector(6, (8,))
    done = fit(h, stale, stale, epochs=50, patience=5)
    assert (done.best_epoch, done.epochs) == (0, 5)
    with torch.no_grad():
        assert torch.equal(h(stale), stale)


def test_a_mini_batch_of_everything_is_a_full_batch() -> None:
    stale, fresh, _ = drifted(50)
    found = []
    for size in (None, 50):
        torch.manual_seed(0)
        h = Corrector(6, (8,)).double()
        fit(h, stale.double(), fresh.double(), batch_size=size, epochs=10)
        found.append(torch.cat([p.detach().flatten() for p in h.parameters()]))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("width", [4, 6, 9])
def test_widths_may_differ_and_training_betters_the_closed_form(width: int) -> None:
    stale, fresh, _ = drifted(300)
    torch.manual_seed(0)
    fresh = fresh @ torch.randn(6, width)
    affine = least_squares(stale, fresh)
    h = ProjectedCorrector(affine, (32,))
    torch.testing.assert_close(h(stale), affine(stale))
    done = fit(h, stale, fresh, epochs=200, learning_rate=0.01)
    assert done.start_loss == pytest.approx(
        mean_squared_error(fresh[:1], fresh, affine(stale), 1.0).item(), rel=1e-4
    )
    assert done.best_loss < done.start_loss / 2


def test_a_unit_projection_makes_unit_vectors() -> None:
    torch.manual_seed(0)
    h = ProjectedCorrector(Affine(torch.randn(4, 6), torch.randn(6)), (5, 7), unit=True)
    torch.testing.assert_close(h(torch.randn(3, 4)).norm(dim=1), torch.ones(3))


def test_bad_input_is_refused_before_any_step() -> None:
    stale, fresh, queries = drifted(20)
    h = Corrector(6)
    bad = stale.clone()
    bad[7] = torch.inf
    cases = [
        ({"stale": bad, "fresh": fresh}, "stale vectors, row 7"),
        ({"stale": stale, "fresh": fresh[:9]}, "20 stale and 9 fresh"),
        ({"stale": stale, "fresh": fresh, "held_out": torch.ones(20) > 0}, "20 of 20"),
        (
            {"stale": stale, "fresh": fresh, "queries": queries[:, :3]},
            "width 3, fresh targets of width 6",
        ),
    ]
    for arguments, message in cases:
        vectors = (arguments.pop("stale"), arguments.pop("fresh"))
        with pytest.raises(InputError, match=message):
            fit(h, *vectors, **arguments)
