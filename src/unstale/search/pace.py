"""How much to rerank and to renew, so that a target overlap holds: decided by what was seen.

Decisions depend on the step and on what was measured in earlier steps, never on a clock, so that a
resumed run decides as an uninterrupted one.
"""

import math
from typing import final

import torch
from torch import Tensor

from unstale.errors import InputError
from unstale.search.band import Settled

_LEAST, _MOST = 0.5, 6.0  # deviations of the error within which a score is in doubt
_WIDEN, _NARROW = 1.15, 0.9
_EXHAUSTED = 0.02
_DEEPEST = 2048
_MEMORY = 0.8  # share of the past in a running mean
_RENEWED = 0.5  # rows to renew for each that was reranked in excess: at most about its cost
_BRIEF = 4  # a pass takes a fourth of the steps since the last: h moves on meanwhile


@final
class Pace:
    """Follow the error of approximate scores, and how much of it can be borne.

    Args:
        target: The overlap with exact search to hold.
        every: Steps from one check to the next.
        queries: Queries of a batch that a check looks at.
    """

    def __init__(self, target: float = 0.99, every: int = 8, queries: int = 4) -> None:
        if not 0 < target < 1:
            raise InputError(f"a target overlap lies between 0 and 1, not at {target}")
        self.target = target
        self.every = every
        self.queries = queries
        self.error = 0.0
        self.deviations = 2.5
        self.overlap = 1.0
        self.reranked = 0.0
        self.saved = 0.0  # rows that may be renewed
        self.waited = 0  # searches since the last pass began
        self.piece = 0  # rows of a pass to renew in a step
        self.depth = 32
        self.audited: float | None = None  # the last comparison with exact search
        self._settled = False

    @property
    def tolerance(self) -> float:
        """Return how near to the k-th score is in doubt; anything, before the first measure."""
        return self.deviations * self.error if self._settled else torch.inf

    def due(self, rows: int) -> bool:
        """Tell whether to renew a snapshot of so many rows, and set the piece of a step.

        It is due once what a better snapshot might have saved is as much as it costs. A pass that
        went on for long would leave rows as an old h saw them.
        """
        if self.saved < rows:
            return False
        self.piece = -(-rows // max(1, self.waited // _BRIEF))
        self.saved, self.waited = 0.0, 0
        return True

    def checked(self, step: int, batch: int) -> Tensor:
        """Choose the queries to check in this step, not always the same of a batch."""
        if step % self.every:
            return torch.zeros(0, dtype=torch.long)
        first = step // self.every * self.queries
        return (first + torch.arange(min(self.queries, batch))) % batch

    def observe(self, settled: Settled) -> None:
        """Take in what a search measured of the error, what it spent, and if its depth sufficed."""
        if self._settled and settled.exhausted > _EXHAUSTED:
            self.depth = min(_DEEPEST, self.depth * 3 // 2)
        if self._settled:  # the first search reranks everything, which tells nothing of the next
            self.saved += _RENEWED * settled.excess
            self.waited += 1
        self.reranked = _MEMORY * self.reranked + (1 - _MEMORY) * settled.reranked
        if settled.error is not None:
            # Rise at once, fall slowly: what is missed cannot be mined again.
            faded = _MEMORY * self.error + (1 - _MEMORY) * settled.error
            self.error = max(settled.error, faded)
            self._settled = True
        if settled.overlap is not None:
            self.judge(settled.overlap)

    def judge(self, overlap: float) -> None:
        """Take in the overlap that a check found: doubt more below the target, less above it."""
        self.overlap = _MEMORY * self.overlap + (1 - _MEMORY) * overlap
        spare = 1 - self.target
        if self.overlap < self.target + 0.2 * spare or overlap < self.target - 2 * spare:
            self.deviations = min(_MOST, self.deviations * _WIDEN)
        elif self.overlap > self.target + 0.5 * spare:
            self.deviations = max(_LEAST, self.deviations * _NARROW)

    @property
    def readings(self) -> dict[str, float]:
        """Return what is worth logging."""
        found = {"overlap": self.overlap, "error": self.error, "reranked": self.reranked}
        return found if self.audited is None else found | {"audited": self.audited}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold."""
        numbers = [self.error, self.deviations, self.overlap, self.reranked, self.saved]
        numbers += map(float, [self.waited, self.piece, self.depth, self._settled])
        numbers.append(math.nan if self.audited is None else self.audited)
        return {"pace": torch.tensor(numbers, dtype=torch.float64)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where another left off."""
        *numbers, waited, piece, depth, settled, audited = state["pace"].tolist()
        self.error, self.deviations, self.overlap, self.reranked, self.saved = numbers
        self.waited, self.piece, self.depth = int(waited), int(piece), int(depth)
        self._settled = bool(settled)
        self.audited = None if math.isnan(audited) else audited
