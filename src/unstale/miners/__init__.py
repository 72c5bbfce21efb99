"""Which targets enter the softmax? One strategy a file, one protocol."""

from unstale.miners.auto_refreshed import AutoRefreshed
from unstale.miners.corrected import Corrected
from unstale.miners.dynnibal import Dynnibal
from unstale.miners.filtered import Filtered, PairScores
from unstale.miners.filters import Filters
from unstale.miners.given import Given
from unstale.miners.in_batch import InBatch
from unstale.miners.miner import Dropped, Embedded, Miner, Queries, Reading, View
from unstale.miners.mixed import Mixed
from unstale.miners.refreshed import Refreshed
from unstale.miners.schedule import Schedule
from unstale.miners.stale import Stale
from unstale.miners.stochastic import Stochastic
from unstale.miners.uniform import Uniform

__all__ = [
    "AutoRefreshed",
    "Corrected",
    "Dropped",
    "Dynnibal",
    "Embedded",
    "Filtered",
    "Filters",
    "Given",
    "InBatch",
    "Miner",
    "Mixed",
    "PairScores",
    "Queries",
    "Reading",
    "Refreshed",
    "Schedule",
    "Stale",
    "Stochastic",
    "Uniform",
    "View",
]
