"""Fit a corrector alone, on pairs of stale and fresh vectors: the paper's "in isolation"."""

import copy
import time
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unstale.corrector.closed_form import check_pairs
from unstale.corrector.losses import cross_entropy, mean_squared_error
from unstale.errors import InputError


@final
@dataclass(frozen=True)
class Fit:
    """How a fit went; the corrector itself was changed in place and holds its best weights."""

    epochs: int
    best_epoch: int
    start_loss: float  # before the first step, on what decides when to stop
    best_loss: float
    seconds: float


def fit(
    corrector: nn.Module,
    stale: Float[Tensor, "n d"],
    fresh: Float[Tensor, "m e"],
    *,
    queries: Float[Tensor, "q f"] | None = None,
    held_out: Bool[Tensor, " h"] | None = None,
    scale: float = 20.0,
    anchor: float = 1.0,
    learning_rate: float = 1e-3,
    batch_size: int | None = None,
    epochs: int = 1000,
    patience: int = 100,
    seed: int = 0,
) -> Fit:
    """Train a corrector in place until it no longer improves, and keep its best weights.

    Args:
        corrector: The network h: a `Corrector`, a `ProjectedCorrector`, any map of rows.
        stale: The vectors that h maps.
        fresh: Where the encoder puts the same targets now.
        queries: Fresh query vectors f(x), for the cross-entropy: KL(P || P_h) over the targets of
            a batch; without them the squared error alone is minimised.
        held_out: The rows kept out of the training, which decide when to stop; by default the
            training loss decides, as in the paper.
        scale: The paper's beta, for the cross-entropy.
        anchor: Weight of the squared error added to the cross-entropy. The divergence alone leaves
            h free up to a vector common to all targets, which a cosine index turns into wrong
            ranks.
        batch_size: Targets a step; by default all of them.
        epochs: The most passes over the pairs.
        patience: Passes without improvement after which to stop.
    """
    check_pairs(stale, fresh)
    if queries is not None and queries.shape[1] != fresh.shape[1]:
        widths = f"{queries.shape[1]}, fresh targets of width {fresh.shape[1]}"
        raise InputError(f"queries of width {widths}: they must come from the same encoder")
    if held_out is not None and not 0 < int(held_out.sum()) < len(stale):
        raise InputError(f"{int(held_out.sum())} of {len(stale)} pairs held out: nothing to fit")
    trained = [p for p in corrector.parameters() if p.requires_grad]
    if not trained:
        raise InputError("the corrector has no parameters to train")
    training = torch.arange(len(stale)) if held_out is None else (~held_out).nonzero()[:, 0]
    checked = training if held_out is None else held_out.nonzero()[:, 0]
    optimizer = torch.optim.Adam(trained, learning_rate)
    generator = torch.Generator().manual_seed(seed)
    began = time.perf_counter()

    def loss(rows: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        corrected, true = corrector(stale[rows]), fresh[rows]
        asked = true[:1] if queries is None else queries
        squared = mean_squared_error(asked, true, corrected, scale)
        if queries is None:
            return squared
        divergence = cross_entropy(queries, true, corrected, scale)
        return divergence + anchor * squared if anchor else divergence

    with torch.no_grad():
        start = best = loss(checked).item()
    best_state, best_epoch, epoch = copy.deepcopy(corrector.state_dict()), 0, 0
    for epoch in range(1, epochs + 1):
        order = training
        if batch_size:
            order = training[torch.randperm(len(training), generator=generator)]
        for rows in order.split(batch_size or len(training)):
            optimizer.zero_grad()
            loss(rows).backward()
            optimizer.step()
        with torch.no_grad():
            now = loss(checked).item()
        if now < best:
            best, best_epoch = now, epoch
            best_state = copy.deepcopy(corrector.state_dict())
        elif epoch - best_epoch >= patience:
            break
    corrector.load_state_dict(best_state)
    return Fit(epoch, best_epoch, start, best, time.perf_counter() - began)
