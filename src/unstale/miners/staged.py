"""Staged: in-batch training first; then targets are embedded, once, and hard negatives are mined.

Easy negatives teach the most while an encoder knows little, and they cost nothing. Hard negatives
teach what is left. Targets that are embedded late are fresh when the mining begins, and drift less
until the end of the run. Embedding a large corpus would cost a short run more than it gains: then
only a part of the corpus is embedded, drawn uniformly, and mined from.
"""

import logging
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.buffer.sharded import Buffer
from unstale.corrector.memory import Rows
from unstale.miners.corrected import build_corrected
from unstale.miners.exhaustive import embed_all, rows_of
from unstale.miners.in_batch import InBatch
from unstale.miners.miner import Embed, Embedded, Freshness, Miner, Queries, Ranked, View
from unstale.miners.part import PartOfCorpus
from unstale.miners.strategy import Materials, built_by
from unstale.search.draws import subset
from unstale.search.search import Search
from unstale.settings import MINE_FROM

_LOG = logging.getLogger(__name__)
_MINING = 1.5  # steps of the first stage that one of the second counts as


@final
class Staged(Miner):
    """Mine nothing until some step; then embed targets and mine as the paper's method does.

    Args:
        second: The paper's method, over a buffer that is still to be filled.
        buffer: That buffer: of all targets, or of those that `second` covers.
        share: The share of the run after which the targets are embedded.
    """

    def __init__(self, second: Miner, buffer: Buffer, share: float) -> None:
        super().__init__()
        self.second = second
        self.share = share
        self.start, self.steps = 1, 2  # the step after which targets are embedded, and the last
        self.mining: Tensor
        self.register_buffer("mining", torch.tensor(False))
        self._buffer, self._before = buffer, InBatch()

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
        return (self.second if self.mining else self._before).mine(queries, k)

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Embed the targets between the stages."""
        if self.mining or step < self.start or self.start >= self.steps:
            return Embedded()
        count, part = len(self._buffer), self.covers()
        _LOG.warning("step %d: embedding %s targets; mining begins", step, f"{count:,}")
        embed_all(self._buffer, embed if part is None else lambda i: embed(part[i.to(part.device)]))
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
        stage = self.second if self.mining else self._before
        return stage.loss(queries, fresh, rows, within)

    def covers(self) -> Int[Tensor, " p"] | None:
        """Return the targets that are embedded and mined from."""
        return self.second.covers()

    def observe(self, reading: Freshness) -> None:
        """Let the corrector take note of a reading."""
        self.second.observe(reading)

    def view(self, rows: Int[Tensor, " n"]) -> View | None:
        """Show the stale embeddings and the corrected ones, once there are any."""
        return self.second.view(rows) if self.mining else None

    def ranked(
        self, queries: Float[Tensor, "q d"], k: int, exclude: Int[Tensor, "q p"] | None = None
    ) -> Ranked | None:
        """Find the k best targets of both views, once there are any."""
        return self.second.ranked(queries, k, exclude) if self.mining else None

    def searches(self) -> list[Search]:
        """List the search of the second stage."""
        return self.second.searches() if self.mining else []

    def row_tensors(self) -> dict[str, Rows]:
        """Name the corpus as it was embedded midway, and what the corrector missed of it."""
        if not self.mining:
            return {}
        return rows_of(self._buffer) | self.second.row_tensors()


def first_stage(share: float, steps: int) -> int:
    """Return the steps of the first stage.

    Example:
        >>> first_stage(0.8, 300), first_stage(0.0, 300)
        (240, 1)
    """
    return max(1, round(share * steps))


def _build(materials: Materials) -> Miner:
    second: Miner = build_corrected(materials)
    if (held := len(materials.cache)) < materials.targets:
        rows = subset(materials.targets, held, materials.settings.seed, step=0)
        second = PartOfCorpus(second, rows.to(materials.device))
    share = materials.baseline.mine_from
    return Staged(second, materials.cache, MINE_FROM if share is None else share)


STRATEGY = built_by("staged", _build)
