"""What every strategy answers: which targets, when to refresh, what to learn."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple, final

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unstale.corrector.memory import Rows
from unstale.search.best import TopK
from unstale.search.search import Search

Embed = Callable[[Int[Tensor, " n"]], Float[Tensor, "n d"]]


@final
class Queries(NamedTuple):
    """A batch of queries as a miner sees it."""

    vectors: Float[Tensor, "b d"]
    rows: Int[Tensor, " b"]  # which queries, the key of their random draws
    positives: Int[Tensor, "b p"]  # rows never to mine for each, padded with -1
    step: int  # completed optimizer steps
    scale: float = 1.0  # the paper's beta, which multiplies scores

    def first(self, share: float) -> "Queries":
        """Return a share of the queries, the first ones, and at least one."""
        some = slice(math.ceil(share * len(self.rows)))
        vectors, rows, positives = (part[some] for part in self[:3])
        return self._replace(vectors=vectors, rows=rows, positives=positives)


@final
class Embedded(NamedTuple):
    """How many targets a refresh ran the encoder on."""

    refreshed: int = 0  # to renew the buffer
    sampled: int = 0  # to fit something
    first: int = 0  # to fill the buffer, by a strategy that does not at the start


@final
class View(NamedTuple):
    """Some targets as a miner sees them: from the buffer, and through its corrector if any."""

    stale: Float[Tensor, "n d"]
    corrected: Float[Tensor, "n d"] | None = None
    trusted: bool = True  # the corrector helps, or is not known not to

    @property
    def searched(self) -> Float[Tensor, "n d"]:
        """Return what the miner ranks the targets by."""
        return self.corrected if self.corrected is not None and self.trusted else self.stale


@final
class Ranked(NamedTuple):
    """The targets that a miner's views of the whole corpus rank first for some queries."""

    stale: TopK
    corrected: TopK | None = None
    trusted: bool = True  # the corrector helps, or is not known not to

    @property
    def searched(self) -> TopK:
        """Return what the view that the miner searches ranks first."""
        return self.corrected if self.corrected is not None and self.trusted else self.stale


@final
class Dropped(NamedTuple):
    """What filters kept out of the targets mined for a batch."""

    kept_away: Int[Tensor, "b s"]  # rows that must not be negatives of each query, padded with -1
    counts: dict[str, int]  # candidates dropped by each rule
    considered: int  # candidates before the filters
    missing: int  # negatives that too few candidates were left for


@final
class Mined(NamedTuple):
    """The negatives of a batch, by kind; a row of -1 stands for none."""

    hard: Int[Tensor, "b h"]  # mined; a miner may choose more than it is asked for
    uniform: Int[Tensor, "b u"]  # drawn uniformly
    given: Int[Tensor, "b g"]  # drawn from the dataset's own
    dropped: Dropped | None = None  # by false-negative filters, if there are any


@final
@dataclass(frozen=True)
class Freshness:
    """One reading: the cached views of the corpus against the encoder as it is now.

    `overlap` is the share of the true top 10 over the whole corpus that the cached view finds (1 is
    fresh), estimated from the few targets that the meter encodes. `cosine` is the mean cosine of
    their cached and true embeddings (1 is fresh), `kl` is KL(P || P') of the softmaxes over them (0
    is fresh); both are of targets near the queries, where more goes wrong than among all. A cosine
    can mislead for a corrector trained by cross-entropy, which is free to shift all targets by a
    common vector; the other two cannot.
    """

    step: int
    cosine_stale: float
    cosine_corrected: float | None
    kl_stale: float
    kl_corrected: float | None
    overlap_stale: float
    overlap_corrected: float | None

    def logs(self) -> dict[str, float]:
        """Name the values as a Trainer logs them."""
        values = {k: v for k, v in asdict(self).items() if v is not None and k != "step"}
        return {f"freshness/{k}": v for k, v in values.items()}


class Miner(nn.Module, ABC):
    """Choose targets; a module, since some strategies own weights.

    All methods of the paper differ only in these few verbs.
    """

    def begin(self, steps: int) -> None:
        """Take note of the length of the run, before its first step; by default do nothing."""

    def work(self, step: int, steps: int) -> float | int:
        """Return how much of a run's work is done after a step, `steps` being all of it.

        The learning rate falls with it. By default every step is as much work as any other.
        """
        return step

    @abstractmethod
    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b m"]:
        """Choose k targets for each query, best first; never one of its positives."""

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Re-embed what the strategy re-embeds after `step` completed steps; by default nothing."""
        return Embedded()

    def loss(
        self,
        queries: Queries,
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Float[Tensor, ""]:
        """Return the loss of the miner's own weights on the step's candidates; by default 0.

        Nothing of it may reach the encoders: queries and fresh embeddings come detached.
        """
        return fresh.new_zeros(())

    def observe(self, reading: Freshness) -> None:
        """Take note of a reading of the freshness meter; by default it changes nothing."""

    def covers(self) -> Int[Tensor, " p"] | None:
        """Return the targets that its views show, sorted; None, the default, is all of them."""
        return None

    def view(self, rows: Int[Tensor, " n"]) -> View | None:
        """Show how the miner sees some targets; None if it caches nothing."""
        return None

    def ranked(
        self, queries: Float[Tensor, "q d"], k: int, exclude: Int[Tensor, "q p"] | None = None
    ) -> Ranked | None:
        """Find the k best targets in each of its views, exactly; None if it caches nothing.

        Rows of `exclude` (padded with -1) are not found. `view` shows the same views. It changes
        nothing: neither a search nor a random draw.
        """
        return None

    def searches(self) -> list[Search]:
        """List the searches whose state a checkpoint holds and whose readings are logged."""
        return []

    def row_tensors(self) -> dict[str, Rows]:
        """Name the tensors that have a row for each target of this process; by default none.

        They are no part of the module, so that they stay where they are when it is moved. A
        checkpoint holds them; processes save them each for itself.
        """
        return {}
