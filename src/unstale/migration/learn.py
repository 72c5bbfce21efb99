"""From a sample's stale and fresh vectors to a corrector, by the method asked for."""

from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor, nn

from unstale.corrector.closed_form import least_squares
from unstale.corrector.fit import fit
from unstale.corrector.projected import ProjectedCorrector
from unstale.migration.settings import MigrateSettings
from unstale.migration.stale import UNIT

EARLY = 0.1  # of the taught targets, to decide when to stop and whether the network helps
LEARNING_RATE, EPOCHS, PATIENCE, BATCH = 3e-4, 60, 6, 256
WORTH = 0.01  # by how much the network must lower the loss to be preferred to the linear map


@final
class Learned(NamedTuple):
    """A corrector and how it was made."""

    corrector: nn.Module
    about: dict[str, Any]


def learn(
    stale: Float[Tensor, "n d"],
    fresh: Float[Tensor, "n e"],
    held_out: Bool[ndarray, " n"],
    settings: MigrateSettings,
    device: torch.device | None = None,
) -> Learned:
    """Fit a corrector to the pairs that are not held out, on a device; it is returned on the CPU.

    The method `auto` takes the network where there are more pairs than dimensions and it lowers
    the loss on targets it did not see by at least 1%, and the linear map of all pairs otherwise.
    """
    taught = torch.from_numpy(~held_out)
    stale, fresh = stale[taught], fresh[taught]
    unit = is_unit(fresh)
    few = len(stale) < stale.shape[1]  # a tenth of them cannot show whether the network helps
    if settings.method == "linear" or few:
        start = least_squares(stale, fresh)
        return Learned(ProjectedCorrector(start, unit=unit).eval(), {"method": "linear"})
    hidden, seed = settings.corrector_hidden, settings.seed
    order = np.random.default_rng(seed).permutation(len(stale))
    early = torch.zeros(len(stale), dtype=torch.bool)
    early[torch.from_numpy(order[: max(8, round(EARLY * len(stale)))])] = True
    torch.manual_seed(seed)
    start = least_squares(stale[~early], fresh[~early])
    corrector = ProjectedCorrector(start, (hidden,), unit=unit)
    done = fit(
        corrector.to(device), stale.to(device), fresh.to(device), held_out=early.to(device),
        learning_rate=LEARNING_RATE, batch_size=BATCH, epochs=EPOCHS, patience=PATIENCE, seed=seed,
    )  # fmt: skip
    corrector.cpu()
    gain = 1 - done.best_loss / done.start_loss if done.start_loss else 0.0
    about = {"hidden": hidden, "best_epoch": done.best_epoch, "loss_lowered_by": gain}
    if gain >= WORTH:
        return Learned(corrector.eval(), {"method": "mlp"} | about)
    corrector = ProjectedCorrector(least_squares(stale, fresh), unit=unit)
    return Learned(corrector.eval(), {"method": "linear"} | about)


def is_unit(vectors: Float[Tensor, "n e"]) -> bool:
    """Say whether all vectors have length one, as those of a cosine model do."""
    return bool(((vectors.norm(dim=1) - 1).abs() < UNIT).all())
