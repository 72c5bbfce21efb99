"""Auto-refresh: re-embed every target when the meter finds the buffer stale, not by schedule."""

from unstale.miners.exhaustive import Refreshed
from unstale.miners.strategy import built_by
from unstale.schedule import Schedule

STRATEGY = built_by(
    "auto-refresh",
    lambda m: Refreshed(m.cache, Schedule([]), m.gumbel_seed, below=m.baseline.refresh_below),
)
