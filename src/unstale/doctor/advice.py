"""From what a trial found to one sentence of advice, by a few rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

SMALL = 0.05  # of the true top-k lost: not worth mending
MENDED = 0.5  # of what is lost, recovered: a corrector that is worth its while
AS_GOOD = 0.05  # of what is lost: by so little more, a slower training is not worth its time
HELD = 0.9  # of the true top-k: a buffer that holds less wants a refresh


@final
@dataclass(frozen=True)
class Tried:
    """What a strategy with a corrector did: the share of the true top-k it saw at the end."""

    strategy: str
    overlap: float
    step_seconds: float


@final
@dataclass(frozen=True)
class Findings:
    """What a trial found."""

    overlaps: Sequence[tuple[int, float]]  # step, and what the stale buffer held of the true top-k
    step_seconds: float
    refresh_seconds: float  # to embed the trial's corpus once
    tried: Sequence[Tried]

    @property
    def lost(self) -> float:
        """Return the share of the true top-k that the stale buffer lost by the end."""
        return 1 - self.overlaps[-1][1]

    def recovered(self, one: Tried) -> float:
        """Return how much of what was lost a corrector found; below 0 if it did harm."""
        return 1 - (1 - one.overlap) / self.lost if self.lost else 0.0

    @property
    def best(self) -> Tried:
        """Choose the quickest of those that recover about as much as the best."""
        most = max(self.recovered(one) for one in self.tried)
        good = [one for one in self.tried if self.recovered(one) >= most - AS_GOOD]
        return min(good, key=lambda one: one.step_seconds)

    @property
    def holds(self) -> float:
        """Return after how many steps the buffer held less than it should, between readings."""
        before = (0.0, 1.0)
        for step, overlap in self.overlaps:
            if overlap < HELD:
                share = (before[1] - HELD) / (before[1] - overlap)
                return before[0] + share * (step - before[0])
            before = float(step), overlap
        return float(self.overlaps[-1][0])


def advise(found: Findings) -> str:
    """Say in one sentence what to do.

    1. A buffer that lost little needs no mending.
    2. A corrector that recovers less than half of the loss is not to be relied on: refresh.
    3. If refreshing whenever the buffer has lost too much is cheaper than correcting: refresh.
    4. Otherwise correct, by the strategy that did best.
    """
    steps, best = found.overlaps[-1][0], found.best
    share = f"{100 * max(0.0, found.recovered(best)):.0f}% of the loss"
    every = max(1, round(found.holds))
    again = f"Refresh about every {every:,} steps (--strategy auto-refresh)"
    if found.lost < SMALL:
        return f"Drift is small: in {steps:,} steps stale is enough (--strategy stale)."
    if found.recovered(best) < MENDED:
        return f"{again}: the corrector recovered only {share}."
    if found.refresh_seconds / every < best.step_seconds - found.step_seconds:
        return f"{again}: embedding this corpus again is cheaper than correcting it."
    pace = f"{1000 * best.step_seconds:.0f} ms a step"
    return f"Correct (--strategy {best.strategy}): it recovered {share}, at {pace}."
