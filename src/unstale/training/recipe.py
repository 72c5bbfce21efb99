"""What a strategy's miner may be built from."""

from dataclasses import dataclass, field
from typing import Literal, final

import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer, ShardedBuffer
from unstale.corrector.losses import LossName
from unstale.corrector.memory import ResidualMemory
from unstale.data.dataset import ByQuery
from unstale.errors import InputError
from unstale.machine import free_memory
from unstale.miners import Filters, PairScores, Schedule
from unstale.search.auto import Choice, Mode
from unstale.search.draws import Gumbel

Sampling = Literal["top-k", "gumbel"]


@final
@dataclass(frozen=True)
class Recipe:
    """What a miner may be built from; each strategy takes what it needs.

    Args:
        targets: N, the size of the corpus.
        buffer: The stale embeddings, of strategies that have any: in memory, or on disk if lean.
        steps: Length of the run.
        seed: Keys every random draw.
        scale: The paper's beta.
        uniform_negatives: Uniform targets added for each query.
        given: The hard negatives that the data came with.
        given_negatives: So many of them added for each query.
        sampling: `top-k` or `gumbel`.
        corrector_hidden: Widths of the corrector's hidden layers.
        corrector_loss: `ce` or `mse`.
        corrector_anchor: Weight of the mean-squared error beside the cross-entropy; 0: the paper's.
        memory: Remember what the corrector missed of each target; off: the paper's.
        refresh: Atlas's schedule (`0-1000:500,...`) or a number of refreshes over the run.
        full_refreshes: Full re-embeddings of dynnibal, spread over the run.
        subset_size: Targets that stochastic and corrected-subset hold; 0 for a twentieth.
        sample_size: Targets that dynnibal embeds at each refit; 0 for a twentieth.
        rank: Rank of dynnibal's regression.
        rerank_depth: L of stale-rerank.
        search: How to search h(B), by name, or as it was chosen.
        batch_size: Queries that are searched at once, by which `auto` chooses.
        filters: What may be a false negative.
        veto: A cross-encoder that is asked, too.
        refresh_below: The overlap under which auto-refresh re-embeds.
        fallback: Mine without the corrector while the meter finds it worse than none.
        device: Where a corrector is; by default where the buffer is.
    """

    targets: int
    buffer: Buffer | None
    steps: int
    seed: int = 0
    scale: float = 20.0
    uniform_negatives: int = 0
    given: ByQuery | None = None
    given_negatives: int = 0
    sampling: Sampling = "top-k"
    corrector_hidden: tuple[int, ...] = (768,)
    corrector_loss: LossName = "ce"
    corrector_anchor: float = 1.0
    memory: bool = True
    refresh: str | int = 80
    full_refreshes: int = 2
    subset_size: int = 0
    sample_size: int = 0
    rank: int = 64
    rerank_depth: int = 256
    search: Mode | Choice = "auto"
    batch_size: int = 64
    filters: Filters = field(default_factory=Filters)
    veto: PairScores | None = None
    refresh_below: float = 0.9
    fallback: bool = True
    device: torch.device | None = None

    @property
    def residuals(self) -> ResidualMemory | None:
        """Return the memory of a corrector that has one; it fades over a run's length."""
        if not self.memory:
            return None
        rows, first = self.targets, 0
        if isinstance(self.cache, ShardedBuffer):
            rows, first = len(self.cache.local), self.cache.start
        size, free = 4 * rows * self.cache.dim, free_memory(self.cache.device)
        if free is not None and size > free:
            rule = f"a memory of residuals takes {size / 1e9:.3g} GB, and {free / 1e9:.3g} are free"
            raise InputError(f"{rule}: --no-memory leaves it out")
        memory = ResidualMemory(rows, self.cache.dim, fade=self.steps, first=first)
        return memory.to(self.cache.device)

    @property
    def schedule(self) -> Schedule:
        """Return when to refresh: by default 80 times a run, as the paper."""
        if isinstance(self.refresh, int):
            return Schedule.evenly(self.refresh, self.steps)
        return Schedule.parse(self.refresh)

    @property
    def twentieth(self) -> int:
        """Return the paper's share for a subset, 1M of 21M targets; of few targets, more."""
        return max(self.targets // 20, min(self.targets, 256))

    @property
    def gumbel(self) -> Gumbel | None:
        """Return the noise of Gumbel-max sampling, or None for a plain top-k."""
        return Gumbel(self.seed, self.scale) if self.sampling == "gumbel" else None

    @property
    def cache(self) -> Buffer:
        """Return the buffer of a strategy that has one."""
        assert self.buffer is not None
        return self.buffer

    @property
    def whole(self) -> TargetBuffer:
        """Return the buffer of a strategy that needs it in one process."""
        assert isinstance(self.buffer, TargetBuffer)
        return self.buffer
