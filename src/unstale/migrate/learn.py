"""From a sample's stale and fresh vectors to a corrector, by the way asked for."""

from dataclasses import dataclass
from typing import Any, Literal, final, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor, nn

from unstale.corrector.closed_form import least_squares, procrustes
from unstale.corrector.fit import FitLoss, fit
from unstale.corrector.projected import ProjectedCorrector
from unstale.errors import InputError

Method = Literal["auto", "mlp", "linear", "procrustes"]
EARLY = 0.1  # of the taught targets, to decide when to stop and whether the network helps
LEARNING_RATE, EPOCHS, PATIENCE, BATCH = 3e-4, 60, 6, 256
WORTH = 0.01  # by how much the network must lower the loss to be preferred to the linear map


@final
@dataclass(frozen=True)
class Learned:
    """A corrector and how it was made."""

    corrector: nn.Module
    about: dict[str, Any]


def learn(
    stale: Float[Tensor, "n d"],
    fresh: Float[Tensor, "n e"],
    held_out: Bool[ndarray, " n"],
    queries: Float[Tensor, "q e"] | None = None,
    *,
    method: Method = "auto",
    hidden: int = 1536,
    scale: float = 20.0,
    seed: int = 0,
) -> Learned:
    """Fit a corrector to the pairs that are not held out.

    Args:
        stale: Vectors of the sample by the old encoder.
        fresh: By the new one.
        held_out: The targets that must not be learned from.
        queries: Fresh queries for the cross-entropy; without them the squared error alone.
        method: `linear` is the least-squares map, `procrustes` the best rotation, `mlp` a
            residual network around the former; `auto` takes the network where there are more
            pairs than dimensions and it lowers the loss on targets it did not see by at least
            1%, and the linear map of all pairs otherwise.
        hidden: Width of the network's hidden layer.
        scale: The paper's beta.
        seed: Of the network and of what decides when to stop.
    """
    if method not in get_args(Method):
        raise InputError(f"--method must be one of {', '.join(get_args(Method))}, not {method!r}")
    taught = torch.from_numpy(~held_out)
    stale, fresh = stale[taught], fresh[taught]
    unit = is_unit(fresh)
    if method == "auto" and len(stale) < stale.shape[1]:
        method = "linear"  # a tenth of so few pairs cannot tell whether the network helps
    if method in ("linear", "procrustes"):
        start = least_squares(stale, fresh) if method == "linear" else procrustes(stale, fresh)
        return Learned(ProjectedCorrector(start, unit=unit).eval(), {"method": method})
    order = np.random.default_rng(seed).permutation(len(stale))
    early = torch.zeros(len(stale), dtype=torch.bool)
    early[torch.from_numpy(order[: max(8, round(EARLY * len(stale)))])] = True
    torch.manual_seed(seed)
    corrector = ProjectedCorrector(
        least_squares(stale[~early], fresh[~early]), (hidden,), unit=unit
    )
    loss: FitLoss = "mse" if queries is None else "ce"
    done = fit(
        corrector, stale, fresh, loss=loss, queries=queries, held_out=early, scale=scale,
        learning_rate=LEARNING_RATE, batch_size=BATCH, epochs=EPOCHS, patience=PATIENCE, seed=seed,
    )  # fmt: skip
    gain = 1 - done.best_loss / done.start_loss if done.start_loss else 0.0
    about = {"method": "mlp", "hidden": hidden, "loss": loss, "best_epoch": done.best_epoch}
    about |= {"loss_lowered_by": gain}
    if method == "auto" and gain < WORTH:
        plain = ProjectedCorrector(least_squares(stale, fresh), unit=unit)
        return Learned(plain.eval(), about | {"method": "linear"})
    return Learned(corrector.eval(), about)


def is_unit(vectors: Float[Tensor, "n e"]) -> bool:
    """Say whether all vectors have length one, as those of a cosine model do."""
    return bool(((vectors.norm(dim=1) - 1).abs() < 1e-3).all())
