"""From what a trial found to one sentence of advice, by a few rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

SMALL = 0.05  # of the true top 10 lost: correcting has nothing to recover
MENDED = 0.5  # of what is lost, recovered: a corrector that can be relied on
HELD = 0.9  # of the true top 10: a cache that holds less wants a refresh
FEWEST = 20  # steps below which a trial tells nothing


@final
@dataclass(frozen=True)
class Findings:
    """What a trial found: one training with `corrected-free`, the default strategy."""

    overlaps: Sequence[tuple[int, float]]  # step, and what the stale cache held of the true top 10
    corrected: float  # what the corrected cache held of it at the end
    step_seconds: float
    in_batch_seconds: float | None  # of a step without mining; None: there was no time for one
    refresh_seconds: float  # to embed the trial's corpus once
    batch_size: int

    @property
    def steps(self) -> int:
        """Return the length of the trial."""
        return self.overlaps[-1][0]

    @property
    def lost(self) -> float:
        """Return the share of the true top 10 that the stale cache lost by the end."""
        return 1 - self.overlaps[-1][1]

    @property
    def recovered(self) -> float:
        """Return how much of what was lost the corrector found; below 0 if it did harm."""
        return 1 - (1 - self.corrected) / self.lost if self.lost else 0.0

    @property
    def holds(self) -> float:
        """Return after how many steps the cache held less than it should, between readings."""
        before = (0.0, 1.0)
        for step, overlap in self.overlaps:
            if overlap < HELD:
                share = (before[1] - HELD) / (before[1] - overlap)
                return before[0] + share * (step - before[0])
            before = float(step), overlap
        return float(self.steps)


def advise(found: Findings) -> str:
    """Say in a sentence or two what to do.

    1. A trial of too few steps tells nothing.
    2. A cache that lost little needs no correction, and the default does no harm.
    3. A corrector that recovers at least half of the loss is used by the default strategy.
    4. Otherwise the cache must be embedded again from time to time.
    """
    share = f"{100 * max(0.0, found.recovered):.0f}% of what a stale cache lost"
    if found.steps < FEWEST:
        rule = "give it more --seconds, or a smaller encoder (--layers 2, --target-max-length 64)"
        return f"Only {found.steps} steps fitted into the time, too few for advice: {rule}."
    if found.lost < SMALL:
        still = f"after {found.steps:,} steps a stale cache still holds {1 - found.lost:.0%}"
        return f"Drift is small: {still} of the true top 10. Keep the default strategy."
    if found.recovered >= MENDED:
        return f"Keep the default, --strategy corrected-free: it recovered {share}."
    every = max(1, round(found.holds))
    again = f"embed the corpus again about every {every:,} steps with --strategy auto-refresh"
    return f"The corrector recovered only {share}: {again}."
