"""Fit a corrector alone, on pairs of stale and fresh vectors: the paper's "in isolation"."""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unstale.corrector.losses import cross_entropy, mean_squared_error
from unstale.errors import InputError

FitLoss = Literal["ce", "mse", "cosine"]


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
    loss: FitLoss = "mse",
    queries: Float[Tensor, "q f"] | None = None,
    candidates: Int[Tensor, "p k"] | None = None,
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

    Shapes that must agree have their own names above, so that the error is ours and says which.

    Args:
        corrector: The network h: a `Corrector`, a `ProjectedCorrector`, any map of rows.
        stale: The vectors that h maps.
        fresh: Where the encoder puts the same targets now.
        loss: `ce`, KL(P || P_h) over truncated softmaxes, needs `queries`; `mse` and `cosine`
            need none.
        queries: Fresh query vectors f(x), for `ce`.
        candidates: For each query, the rows that make its truncated softmax; by default all the
            targets of a batch.
        held_out: The rows kept out of the training, which decide when to stop; by default the
            training loss decides, as in the paper.
        scale: The paper's beta, for `ce`.
        anchor: Weight of the squared error added to `ce`. The divergence alone leaves h free up
            to a vector common to all targets, which a cosine index turns into wrong ranks.
        learning_rate: Adam's.
        batch_size: Targets (with `candidates`: queries) a step; by default all of them.
        epochs: The most passes over the pairs.
        patience: Passes without improvement after which to stop.
        seed: Of the order of mini-batches.
    """
    _check(stale, fresh, loss, queries, candidates, held_out)
    goal = _Objective(loss, queries, scale, anchor)
    training = torch.arange(len(stale)) if held_out is None else (~held_out).nonzero()[:, 0]
    checked = training if held_out is None else held_out.nonzero()[:, 0]
    if candidates is not None and held_out is not None and bool(held_out[candidates].any()):
        raise InputError("a held-out target stands among the candidates of a query")
    trained = [p for p in corrector.parameters() if p.requires_grad]
    if not trained:
        raise InputError("the corrector has no parameters to train")
    optimizer = torch.optim.Adam(trained, learning_rate)
    generator = torch.Generator().manual_seed(seed)
    began = time.perf_counter()

    def judge() -> float:
        with torch.no_grad():
            return goal(corrector(stale[checked]), fresh[checked]).item()

    start = best = judge()
    best_state, best_epoch, epoch = copy.deepcopy(corrector.state_dict()), 0, 0
    for epoch in range(1, epochs + 1):
        for rows, asked, within in _batches(training, candidates, batch_size, generator):
            optimizer.zero_grad()
            goal(corrector(stale[rows]), fresh[rows], asked, within).backward()
            optimizer.step()
        now = judge()
        if now < best:
            best, best_epoch = now, epoch
            best_state = copy.deepcopy(corrector.state_dict())
        elif epoch - best_epoch >= patience:
            break
    corrector.load_state_dict(best_state)
    return Fit(epoch, best_epoch, start, best, time.perf_counter() - began)


class _Objective:
    """What is minimised: a function of corrected and fresh vectors, and of some queries."""

    def __init__(
        self, loss: FitLoss, queries: Float[Tensor, "q e"] | None, scale: float, anchor: float
    ) -> None:
        self.loss = loss
        self.queries = queries
        self.scale = scale
        self.anchor = anchor

    def __call__(
        self,
        corrected: Float[Tensor, "c e"],
        fresh: Float[Tensor, "c e"],
        asked: Int[Tensor, " b"] | None = None,
        within: Bool[Tensor, "b c"] | None = None,
    ) -> Float[Tensor, ""]:
        if self.loss == "cosine":
            return 1 - functional.cosine_similarity(corrected, fresh.detach(), dim=1).mean()
        if self.queries is None:
            return mean_squared_error(fresh[:1], fresh, corrected, self.scale)
        queries = self.queries if asked is None else self.queries[asked]
        divergence = cross_entropy(queries, fresh, corrected, self.scale, within)
        if not self.anchor:
            return divergence
        return divergence + self.anchor * mean_squared_error(queries, fresh, corrected, self.scale)


def _batches(
    training: Int[Tensor, " t"],
    candidates: Int[Tensor, "q k"] | None,
    size: int | None,
    generator: torch.Generator,
) -> Iterator[tuple[Int[Tensor, " c"], Int[Tensor, " b"] | None, Bool[Tensor, "b c"] | None]]:
    """Yield rows, the queries that ask about them (None: all) and each query's candidates."""
    if candidates is None:
        whole = training[torch.randperm(len(training), generator=generator)] if size else training
        for rows in whole.split(size or len(whole)):
            yield rows, None, None
        return
    order = torch.randperm(len(candidates), generator=generator)
    for asked in order.split(size or len(order)):
        rows, place = candidates[asked].unique(return_inverse=True)
        within = torch.zeros(len(asked), len(rows), dtype=torch.bool)
        yield rows, asked, within.scatter_(1, place, True)


def _check(
    stale: Float[Tensor, "n d"],
    fresh: Float[Tensor, "m e"],
    loss: str,
    queries: Float[Tensor, "q f"] | None,
    candidates: Int[Tensor, "p k"] | None,
    held_out: Bool[Tensor, " h"] | None,
) -> None:
    if len(stale) != len(fresh):
        raise InputError(f"{len(stale)} stale and {len(fresh)} fresh vectors make no pairs")
    if loss not in ("ce", "mse", "cosine"):
        raise InputError(f"the loss must be ce, mse or cosine, not {loss!r}")
    if (loss == "ce") != (queries is not None):
        raise InputError("the loss ce needs queries" if loss == "ce" else f"{loss} uses no queries")
    if queries is not None and queries.shape[1] != fresh.shape[1]:
        widths = f"{queries.shape[1]}, fresh targets of width {fresh.shape[1]}"
        raise InputError(f"queries of width {widths}: they must come from the same encoder")
    if candidates is not None and (queries is None or len(candidates) != len(queries)):
        raise InputError(f"candidates of {len(candidates)} queries, which were not all given")
    if candidates is not None and not 0 <= int(candidates.min()) <= int(candidates.max()) < len(
        stale
    ):
        raise InputError(f"candidates must be rows from 0 to {len(stale) - 1}")
    if held_out is not None and not 0 < int(held_out.sum()) < len(stale):
        raise InputError(f"{int(held_out.sum())} of {len(stale)} pairs held out: nothing to fit")
    for name, vectors in (("stale", stale), ("fresh", fresh)):
        if not bool(torch.isfinite(vectors).all()):
            row = int((~torch.isfinite(vectors).all(dim=1)).nonzero()[0, 0])
            raise InputError(f"{name} vectors, row {row}: NaN or infinity")
