"""What a run remembers of itself beside its weights: its step, cost, readings and seconds."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.miners.miner import Dropped, Freshness
from unstale.training.failure import NotFiniteError
from unstale.training.identity import Identity

P = ParamSpec("P")
R = TypeVar("R")


@final
class Stopwatch:
    """Time a run and its parts; a checkpoint carries the seconds on to the next session.

    What a killed session did after its last checkpoint is done again, and counts once.
    """

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        self._earlier = 0.0
        self._began = time.perf_counter()

    def timed(self, part: str, work: Callable[P, R]) -> Callable[P, R]:
        """Return `work`, which from now on adds its seconds to a part.

        Example:
            >>> clock = Stopwatch()
            >>> clock.timed("sum", sum)([1, 2])
            3
            >>> sorted(clock.read())
            ['sum', 'total']
        """

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            began = time.perf_counter()
            try:
                return work(*args, **kwargs)
            finally:
                self._add(part, time.perf_counter() - began)

        return call

    def read(self) -> dict[str, float]:
        """Return the seconds of each part and the total, over all sessions so far."""
        return {**self._parts, "total": self._earlier + time.perf_counter() - self._began}

    def resume(self, earlier: Mapping[str, float]) -> None:
        """Add what earlier sessions read."""
        for part, seconds in earlier.items():
            if part == "total":
                self._earlier += seconds
            else:
                self._add(part, seconds)

    def _add(self, part: str, seconds: float) -> None:
        self._parts[part] = self._parts.get(part, 0.0) + seconds


@dataclass
class Counters:
    """What a run has cost so far."""

    targets_trained: int = 0  # encoded with gradients, for the softmax
    targets_embedded: int = 0  # encoded to fill the buffer, on the way
    targets_reembedded: int = 0  # encoded to refresh the buffer
    targets_sampled: int = 0  # encoded as a sample, to fit something
    targets_probed: int = 0  # encoded by the meter
    mining_seconds: float = 0.0
    training_seconds: float = 0.0
    metering_seconds: float = 0.0  # of the training, spent on reading the freshness
    embedding_seconds: float = 0.0  # to fill the buffer on the way: not of the training
    starting_seconds: float = 0.0  # of the training, the first step: it makes what others reuse
    candidates_considered: int = 0  # before filters, if there are any
    candidates_dropped: dict[str, int] = field(default_factory=dict)  # by each filter
    negatives_missing: int = 0  # for which too few candidates were left

    def count_dropped(self, dropped: Dropped) -> None:
        """Add what filters dropped on a step."""
        self.candidates_considered += dropped.considered
        self.negatives_missing += dropped.missing
        for name, count in dropped.counts.items():
            self.candidates_dropped[name] = self.candidates_dropped.get(name, 0) + count


@final
@dataclass
class RunRecord:
    """How far a run is, what it cost, and what was measured on the way."""

    step: int = 0  # completed optimizer steps
    batch: list[int] = field(default_factory=list)  # rows of the queries of the step
    identity: Identity = field(default_factory=dict)  # what the run is made of
    counters: Counters = field(default_factory=Counters)
    freshness: list[Freshness] = field(default_factory=list)
    curve: list[dict[str, float]] = field(default_factory=list)  # step, seconds, metrics
    looks: list[dict[str, float | int]] = field(default_factory=list)  # step, metrics of dev
    search: list[dict[str, float]] = field(default_factory=list)  # step, what an inexact one says
    parts: dict[str, float] = field(default_factory=dict)  # what an algorithm counts besides
    clock: Stopwatch = field(default_factory=Stopwatch)

    def begin_batch(self, queries: Int[Tensor, " b"]) -> None:
        """Note the queries of a step, to be named if it fails."""
        self.batch = queries.tolist()

    def check_finite(
        self, what: str, values: Float[Tensor, "n ..."], rows: Int[Tensor, " n"] | None = None
    ) -> None:
        """Stop at NaN or infinity, and name the step, the batch and the targets to blame."""
        if torch.isfinite(values).all():
            return
        blamed = []
        if rows is not None:
            blamed = rows[~torch.isfinite(values).flatten(1).all(dim=1).to(rows.device)].tolist()
        raise NotFiniteError(what, self.step, self.batch, blamed)

    def check_losses(
        self, losses: dict[str, Float[Tensor, ""]], blamed: tuple[str, Tensor, Tensor] | None = None
    ) -> dict[str, Float[Tensor, ""]]:
        """Return the losses of a step if they are finite; otherwise say what made them so.

        `blamed` names some embeddings and their rows to look at first.
        """
        # First the corrector's: one that has gone wrong spoils what is mined, too.
        for name, loss in sorted(losses.items(), key=lambda item: item[0] != "corrector_loss"):
            if not torch.isfinite(loss):
                if blamed is not None:
                    self.check_finite(*blamed)
                self.check_finite(f"the {name.replace('_', ' ')}", loss[None])
        return losses

    def count(self, name: str, value: int | float) -> None:
        """Add to what an algorithm counts besides."""
        self.parts[name] = self.parts.get(name, 0) + value

    @contextmanager
    def timed(self, part: str, device: torch.device) -> Iterator[None]:
        """Count the seconds of a block; work that is queued on a device is waited for."""
        began = time.perf_counter()
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        self.count(f"{part}_seconds", time.perf_counter() - began)
