"""Staged: in-batch training first; then the corpus is embedded, once, and hard negatives are mined.

Easy negatives teach the most while an encoder knows little, and they cost nothing. Hard negatives
teach what is left. A corpus that is embedded late is fresh when the mining begins, and drifts less
until the end of the run.
"""

import logging
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.corrector.memory import Rows
from unstale.miners.corrected import STRATEGY as CORRECTED
from unstale.miners.corrected import Corrected, build_corrected
from unstale.miners.exhaustive import embed_all, rows_of
from unstale.miners.in_batch import InBatch
from unstale.miners.miner import Embed, Embedded, Freshness, Miner, Queries, Ranked, View
from unstale.miners.strategy import Materials, NegativeCounts, Strategy
from unstale.search.search import Search
from unstale.settings import MINE_FROM
from unstale.strategies import STRATEGIES

_LOG = logging.getLogger(__name__)
_MINING = 3  # steps of the first stage that one of the second counts as


@final
class Staged(Miner):
    """Mine nothing until some step; then embed the corpus and mine as the paper's method does.

    Args:
        corrected: The paper's method, over a buffer that is still to be filled.
        share: The share of the run after which the corpus is embedded.
    """

    def __init__(self, corrected: Corrected, share: float) -> None:
        super().__init__()
        self.corrected = corrected
        self.share = share
        self.start, self.steps = 1, 2  # the step after which the corpus is embedded, and the last
        self.mining: Tensor
        self.register_buffer("mining", torch.tensor(False))
        self._before = InBatch()

    def begin(self, steps: int) -> None:
        """Plan the stages of a run."""
        self.start, self.steps = first_stage(self.share, steps), steps

    def work(self, step: int, steps: int) -> float:
        """Count a step of the second stage as several, so that its learning rate is higher."""
        first = first_stage(self.share, steps)
        done, every = (min(s, first) + _MINING * max(0, s - first) for s in (step, steps))
        return steps * done / every

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b m"]:
        """Choose nothing in the first stage, and the top k by `q.h(b)` in the second."""
        return (self.corrected if self.mining else self._before).mine(queries, k)

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Embed the corpus between the stages."""
        if self.mining or step < self.start or self.start >= self.steps:
            return Embedded()
        buffer = self.corrected.buffer
        _LOG.warning("step %d: embedding %s targets; mining begins", step, f"{len(buffer):,}")
        count = embed_all(buffer, embed)
        self.mining.fill_(True)
        return Embedded(first=count)

    def loss(
        self,
        queries: Queries,
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Float[Tensor, ""]:
        """Train the corrector in the second stage."""
        stage = self.corrected if self.mining else self._before
        return stage.loss(queries, fresh, rows, within)

    def observe(self, reading: Freshness) -> None:
        """Let the corrector take note of a reading."""
        self.corrected.observe(reading)

    def view(self, rows: Int[Tensor, " n"]) -> View | None:
        """Show the stale embeddings and the corrected ones, once there are any."""
        return self.corrected.view(rows) if self.mining else None

    def ranked(
        self, queries: Float[Tensor, "q d"], k: int, exclude: Int[Tensor, "q p"] | None = None
    ) -> Ranked | None:
        """Find the k best targets of both views, once there are any."""
        return self.corrected.ranked(queries, k, exclude) if self.mining else None

    def searches(self) -> list[Search]:
        """List the search of the second stage."""
        return self.corrected.searches() if self.mining else []

    def row_tensors(self) -> dict[str, Rows]:
        """Name the corpus as it was embedded midway, and what the corrector missed of it."""
        if not self.mining:
            return {}
        return rows_of(self.corrected.buffer) | self.corrected.row_tensors()


def first_stage(share: float, steps: int) -> int:
    """Return the steps of the first stage.

    Example:
        >>> first_stage(0.8, 300), first_stage(0.0, 300)
        (240, 1)
    """
    return max(1, round(share * steps))


def _build(materials: Materials) -> Miner:
    share = materials.baseline.mine_from
    return Staged(build_corrected(materials), MINE_FROM if share is None else share)


STRATEGY = Strategy(
    name="staged",
    negatives_from=STRATEGIES["staged"],
    build=_build,
    cache="later",
    reads=("mine_from", *CORRECTED.reads),
    # One for every second query, for a quarter of the searches.
    negatives=NegativeCounts(hard=2, uniform=0),
    mined_for=0.25,
    # A cache that is embedded late drifts little, and a linear corrector is searched faster.
    corrector_hidden=0,
    adds_in_batch=True,
    planned=True,
    tone="corrected",
)
