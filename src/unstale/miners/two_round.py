"""Two-round: re-embed every target once, halfway through the run."""

from unstale.miners.exhaustive import Refreshed
from unstale.miners.strategy import built_by
from unstale.schedule import Schedule

STRATEGY = built_by(
    "two-round", lambda m: Refreshed(m.cache, Schedule.inside(1, m.settings.steps), m.gumbel_seed)
)
