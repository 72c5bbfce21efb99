"""Auto-refresh: re-embed every target when the meter finds the buffer stale, not by schedule."""

from unstale.miners.exhaustive import Refreshed
from unstale.miners.strategy import Strategy
from unstale.schedule import Schedule
from unstale.strategies import STRATEGIES

STRATEGY = Strategy(
    name="auto-refresh",
    negatives_from=STRATEGIES["auto-refresh"],
    build=lambda m: Refreshed(m.cache, Schedule([]), m.gumbel_seed, below=m.baseline.refresh_below),
    reembeds="the whole corpus, when needed",
    cache="rewritten",
    reads=("sampling", "refresh_below"),
)
