"""What every strategy answers: which targets, when to refresh, what to learn."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol, final, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unstale.search.search import Search

Embed = Callable[[Int[Tensor, " n"]], Float[Tensor, "n d"]]


@final
class Queries(NamedTuple):
    """A batch of queries as a miner sees it."""

    vectors: Float[Tensor, "b d"]
    rows: Int[Tensor, " b"]  # which queries, the key of their random draws
    positives: Int[Tensor, "b p"]  # rows never to mine for each, padded with -1
    step: int


@final
class Embedded(NamedTuple):
    """How many targets a refresh ran the encoder on: to renew the buffer, or as a sample."""

    refreshed: int = 0
    sampled: int = 0


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
class Dropped(NamedTuple):
    """What filters kept out of the last targets mined."""

    spared: Int[Tensor, "b s"]  # rows that are not to be negatives of each query, padded with -1
    counts: dict[str, int]  # candidates dropped by each rule
    considered: int  # candidates before the filters
    missing: int  # negatives that too few candidates were left for


@runtime_checkable
class Reading(Protocol):
    """What the meter found: how well the buffer, and the corrector, know the true neighbours."""

    @property
    def step(self) -> int:
        """Return after how many steps."""
        ...

    @property
    def kl_stale(self) -> float:
        """Return the divergence of the stale softmax from the true one."""
        ...

    @property
    def kl_corrected(self) -> float | None:
        """Return that of the corrected softmax, if there is a corrector."""
        ...

    @property
    def overlap_stale(self) -> float:
        """Return the share of the true top-k that the stale view finds."""
        ...

    @property
    def overlap_corrected(self) -> float | None:
        """Return the share that the corrected view finds."""
        ...


class Miner(nn.Module, ABC):
    """Choose targets; a module, since some strategies own weights.

    All methods of the paper differ only in these few verbs.
    """

    @abstractmethod
    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b m"]:
        """Choose targets for each query, k of them; never one of its positives.

        A row of -1 stands for none: filters may leave a query with fewer.
        """

    def dropped(self) -> Dropped | None:
        """Tell what filters dropped when last mined; None if there are none."""
        return None

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Re-embed what the strategy re-embeds after `step` completed steps; by default nothing."""
        return Embedded()

    def loss(
        self,
        queries: Float[Tensor, "b d"],
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Float[Tensor, ""]:
        """Return the loss of the miner's own weights on the step's candidates; by default 0."""
        return fresh.new_zeros(())

    def heed(self, reading: Reading) -> None:
        """Take note of how fresh the view is found to be; by default it changes nothing."""

    def view(self, rows: Int[Tensor, " n"]) -> View | None:
        """Show the meter what the miner believes of some targets; None if it caches nothing."""
        return None

    def searches(self) -> list[Search]:
        """List the searches whose state a checkpoint holds and whose readings are logged."""
        return []

    def row_tensors(self) -> dict[str, int]:
        """Name the tensors of the state dict that have a row for each target of this process.

        The value is the first of these rows; processes save such tensors each for itself.
        """
        return {}
