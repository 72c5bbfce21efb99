"""Which targets enter the softmax? One strategy a file, one protocol.

To add a strategy, declare what it needs in `unstale.strategies`, and write `miners/NAME.py`, which
ends with its `STRATEGY`.
"""

from importlib import import_module

from unstale.filters import Filters
from unstale.miners.corrected import Corrected
from unstale.miners.filters import FalseNegatives
from unstale.miners.miner import Embed, Embedded, Freshness, Mined, Miner, Queries, Ranked, View
from unstale.miners.negatives import Negatives, build_negatives
from unstale.miners.offline import MinedSplit, mine_split, with_negatives
from unstale.miners.stale import Stale
from unstale.miners.strategy import (
    Materials,
    Strategy,
    find_strategy,
    register,
    strategies,
)
from unstale.schedule import Schedule
from unstale.strategies import STRATEGIES, NegativeCounts

__all__ = [
    "Corrected",
    "Embed",
    "Embedded",
    "FalseNegatives",
    "Filters",
    "Freshness",
    "Materials",
    "Mined",
    "MinedSplit",
    "Miner",
    "NegativeCounts",
    "Negatives",
    "Queries",
    "Ranked",
    "Schedule",
    "Stale",
    "Strategy",
    "View",
    "build_negatives",
    "find_strategy",
    "mine_split",
    "register",
    "strategies",
    "with_negatives",
]

for _name in STRATEGIES:
    register(import_module(f"{__name__}.{_name.replace('-', '_')}").STRATEGY)
