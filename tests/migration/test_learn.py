import numpy as np
import pytest
import torch

from unstale.migration.learn import is_unit, learn
from unstale.migration.settings import MigrateSettings


def pairs(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A drift that no linear map can undo."""
    generator = torch.Generator().manual_seed(0)
    stale = torch.randn(n, 8, generator=generator)
    hidden = torch.relu(stale @ torch.randn(8, 32, generator=generator))
    fresh = stale @ torch.randn(8, 12, generator=generator)
    return stale, fresh + 2 * hidden @ torch.randn(32, 12, generator=generator)


def error(learned, stale, fresh) -> float:
    with torch.no_grad():
        return (learned.corrector(stale) - fresh).square().mean().item()


def test_the_network_is_taken_where_it_helps_and_betters_the_linear_map() -> None:
    stale, fresh = pairs(800)
    held = np.arange(800) >= 600
    found = {
        m: learn(stale, fresh, held, MigrateSettings(method=m, corrector_hidden=64))
        for m in ("auto", "linear")
    }
    assert found["auto"].about["method"] == "mlp"
    unseen = {m: error(f, stale[600:], fresh[600:]) for m, f in found.items()}
    assert unseen["auto"] < unseen["linear"]


def test_the_linear_map_is_taken_where_it_is_the_truth_or_pairs_are_few() -> None:
    stale, fresh = pairs(200)
    line = stale @ torch.ones(8, 12) + 1
    for goal, n in ((line, 200), (fresh, 9)):  # 9 pairs, 7 of them to learn from, 8 dimensions
        held = np.arange(n) % 5 == 0
        settings = MigrateSettings(corrector_hidden=16)
        assert learn(stale[:n], goal[:n], held, settings).about["method"] == "linear"


@pytest.mark.parametrize("method", ["auto", "linear"])
def test_held_out_targets_teach_nothing(method) -> None:
    stale, fresh = pairs(60)
    held = np.arange(60) >= 40
    other = fresh.clone()
    other[40:] = 1000.0
    settings = MigrateSettings(method=method, corrector_hidden=8)
    ours, theirs = (learn(stale, f, held, settings) for f in (fresh, other))
    with torch.no_grad():
        assert torch.equal(ours.corrector(stale), theirs.corrector(stale))


def test_unit_vectors_stay_unit() -> None:
    stale, fresh = pairs(60)
    unit = torch.nn.functional.normalize(fresh, dim=1)
    assert is_unit(unit)
    assert not is_unit(fresh)
    learned = learn(stale, unit, np.arange(60) >= 40, MigrateSettings(method="linear"))
    with torch.no_grad():
        torch.testing.assert_close(learned.corrector(stale).norm(dim=1), torch.ones(60))
