"""How much to rescore and to renew so that a target overlap holds, decided by measurements.

Decisions depend on the step and on what was measured in earlier steps, never on a clock, so that a
resumed run decides as an uninterrupted one.
"""

import math
from dataclasses import astuple, dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.errors import InputError
from unstale.search.rescore import Rescored

_LEAST, _MOST = 0.5, 6.0  # deviations of the error within which a score is in doubt
_WIDEN, _NARROW = 1.15, 0.9
_EXHAUSTED, _SPARE = 0.02, 0.005  # shares of the queries: a deeper or shallower fetch beyond these
_SHALLOWEST, _DEEPEST = 32, 2048
_MEMORY = 0.8  # share of the past in a running mean
_RENEWED = 0.5  # rows to renew for each that was rescored in excess: at most about its cost
_BRIEF = 4  # a pass takes a fourth of the steps since the last, because h moves on meanwhile
_EVERY, _QUERIES = 8, 4  # steps from one check to the next, and the queries that it looks at


@final
@dataclass
class OverlapControl:
    """Follow the error of approximate scores, and decide how much of it is tolerable.

    The target is the overlap with exact search to hold. All fields are numbers that a checkpoint
    holds.
    """

    target: float = 0.99
    error: float = 0.0
    deviations: float = 2.5
    overlap: float = 1.0
    audited: float = math.nan  # the last comparison with exact search
    reranked: float = 0.0
    saved: float = 0.0  # rows that may be renewed
    waited: int = 0  # searches since the last pass began
    piece: int = 0  # rows of a pass to renew in a step
    depth: int = _SHALLOWEST  # targets to fetch beyond those that are wanted
    measured: bool = False  # the error is known

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise InputError(f"a target overlap lies between 0 and 1, not at {self.target}")

    @property
    def tolerance(self) -> float:
        """Return how near to the k-th score is in doubt; anything, before the first measure."""
        return self.deviations * self.error if self.measured else torch.inf

    def due(self, rows: int) -> bool:
        """Tell whether to renew a snapshot of that many rows, and set the piece of a step.

        It is due once a better snapshot might have saved as much as it costs. A pass that took
        long would leave rows as an old h saw them.
        """
        if self.saved < rows:
            return False
        self.piece = -(-rows // max(1, self.waited // _BRIEF))
        self.saved, self.waited = 0.0, 0
        return True

    def checked(self, step: int, batch: int) -> Int[Tensor, " c"]:
        """Choose the queries to check in this step, not always the same of a batch."""
        if step % _EVERY:
            return torch.zeros(0, dtype=torch.long)
        first = step // _EVERY * _QUERIES
        return (first + torch.arange(min(_QUERIES, batch))) % batch

    def observe(self, rescored: Rescored) -> None:
        """Take in what a search measured of the error, what it spent, and if its depth sufficed."""
        if self.measured:  # the first search rescores everything, which tells nothing of the next
            if rescored.exhausted > _EXHAUSTED:
                self.depth = min(_DEEPEST, self.depth * 3 // 2)
            elif rescored.exhausted < _SPARE:  # as after a renewal; slowly, or it would swing
                self.depth = max(_SHALLOWEST, self.depth * 15 // 16)
            self.saved += _RENEWED * rescored.excess
            self.waited += 1
        self.reranked = _MEMORY * self.reranked + (1 - _MEMORY) * rescored.reranked
        if rescored.error is not None:
            # Rise at once, fall slowly: what is missed cannot be mined again.
            faded = _MEMORY * self.error + (1 - _MEMORY) * rescored.error
            self.error = max(rescored.error, faded)
            self.measured = True
        if rescored.overlap is not None:
            self.adjust(rescored.overlap)

    def adjust(self, overlap: float) -> None:
        """Take in the overlap that a check found: doubt more below the target, less above it."""
        self.overlap = _MEMORY * self.overlap + (1 - _MEMORY) * overlap
        spare = 1 - self.target
        if self.overlap < self.target + 0.2 * spare or overlap < self.target - 2 * spare:
            self.deviations = min(_MOST, self.deviations * _WIDEN)
        elif self.overlap > self.target + 0.5 * spare:
            self.deviations = max(_LEAST, self.deviations * _NARROW)

    @property
    def readings(self) -> dict[str, float]:
        """Return what to log."""
        found = {"overlap": self.overlap, "error": self.error, "reranked": self.reranked}
        return found if math.isnan(self.audited) else found | {"audited": self.audited}

    @property
    def state(self) -> Float[Tensor, " fields"]:
        """Return what a checkpoint must hold."""
        return torch.tensor(astuple(self), dtype=torch.float64)

    @classmethod
    def of(cls, state: Float[Tensor, " fields"]) -> "OverlapControl":
        """Return the control that a checkpoint holds."""
        kinds = map(type, astuple(cls()))
        return cls(*(kind(number) for kind, number in zip(kinds, state.tolist(), strict=True)))
