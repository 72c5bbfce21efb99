"""Which targets enter the softmax? One strategy a file, one protocol."""

from unstale.miners.corrected import Corrected
from unstale.miners.in_batch import InBatch
from unstale.miners.miner import Embedded, Miner, Queries, View
from unstale.miners.mixed import Mixed
from unstale.miners.stale import Stale
from unstale.miners.uniform import Uniform

__all__ = [
    "Corrected",
    "Embedded",
    "InBatch",
    "Miner",
    "Mixed",
    "Queries",
    "Stale",
    "Uniform",
    "View",
]
