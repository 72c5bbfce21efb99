"""Two-round: re-embed every target once, halfway through the run."""

from unstale.miners.exhaustive import Refreshed
from unstale.miners.strategy import Strategy
from unstale.schedule import Schedule
from unstale.strategies import STRATEGIES

STRATEGY = Strategy(
    name="two-round",
    negatives_from=STRATEGIES["two-round"],
    build=lambda m: Refreshed(m.cache, Schedule.inside(1, m.settings.steps), m.gumbel_seed),
    reembeds="the whole corpus, once",
    cache="rewritten",
    reads=("sampling",),
    needs_steps=True,
    rag=True,
)
