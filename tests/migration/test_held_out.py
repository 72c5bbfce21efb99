"""What judges a migration must have had no say in it: neither in the map nor in any choice."""

from pathlib import Path

import numpy as np
import pytest
import torch

from unstale.migration.embed import EmbeddedTargets
from unstale.migration.fitting import Fitting
from unstale.migration.queries import AskedQueries
from unstale.migration.settings import MigrateSettings
from unstale.migration.vectors import ArrayVectors

ROWS, DIM = 1200, 8


def world(bend: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Targets that move as a linear map says, or as none can."""
    generator = torch.Generator().manual_seed(0)
    stale = torch.randn(ROWS, DIM, generator=generator)
    hidden = torch.relu(stale @ torch.randn(DIM, 32, generator=generator))
    fresh = stale @ torch.randn(DIM, 10, generator=generator)
    fresh = fresh + bend * hidden @ torch.randn(32, 10, generator=generator)
    return stale, fresh, torch.randn(40, 10, generator=generator)


class Migration:
    """A whole migration, with queries that choose and targets embedded where it matters."""

    def __init__(self, bend: float, spoilt: np.ndarray | None = None, how: float = 0.0):
        stale, fresh, queries = world(bend)
        if spoilt is not None:  # what the encoder says of these targets
            fresh[spoilt] = how * fresh[spoilt].flip(0) + how
        self.picked: list[list[int]] = []
        source = ArrayVectors(Path("old.npy"), stale.numpy())

        def embed(stage, pick):
            picked = pick()
            self.picked += [picked.rows.tolist(), picked.apart.tolist()]
            return EmbeddedTargets(picked, fresh[torch.from_numpy(picked.rows)], 1.0)

        settings = MigrateSettings(corrector_hidden=64)
        fitting = Fitting(source, embed, AskedQueries(queries[:20], queries[20:]), settings)
        small, large = (fitting.run(800, more, curve=False) for more in (0, 60))
        self.found, sample = large.found, large.sample
        self.judges = sample.rows[sample.held_out]
        both = (small.learned, large.learned)
        self.about = [learned.about for learned in both]
        with torch.no_grad():
            self.maps = [learned.corrector(stale) for learned in both]


@pytest.mark.parametrize(("bend", "method"), [(0.0, "linear"), (2.0, "mlp")])
def test_held_out_targets_judge_and_do_nothing_else(bend: float, method: str) -> None:
    honest = Migration(bend)
    assert [about["method"] for about in honest.about] == [method] * 2
    for how in (-1.0, 50.0):
        other = Migration(bend, honest.judges, how)
        assert other.picked == honest.picked
        assert other.about == honest.about
        for ours, theirs in zip(other.maps, honest.maps, strict=True):
            assert torch.equal(ours, theirs)
        assert other.found["cosine"].value < honest.found["cosine"].value - 0.1
