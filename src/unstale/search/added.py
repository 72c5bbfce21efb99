"""What is added to the scores of a batch of queries before the top k: noise, residuals or both."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from unstale.corrector.memory import ResidualMemory
from unstale.search.draws import Gumbel

PairScores = Callable[[Int[Tensor, "b m"]], Float[Tensor, "b m"]]


class Added(ABC):
    """Something to add to the score of each (query, row); it knows its step and its queries."""

    @abstractmethod
    def scores(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "b n"]:
        """Return what to add to the scores of some rows, for all the queries."""

    @abstractmethod
    def of(self, places: Int[Tensor, " c"] | slice) -> "Added":
        """Return the same for some of the queries, by their places in the batch."""

    @abstractmethod
    def starting_at(self, first: int) -> "Added":
        """Return the same for a part of the corpus, whose rows are counted from `first`."""

    @property
    def late(self) -> PairScores | None:
        """Return how to score some rows of each query, if a scan may do without; by default no.

        An approximate search then adds it only to the targets that it has fetched.
        """
        return None


@final
@dataclass(frozen=True)
class Noise(Added):
    """Gumbel noise, keyed by the step, the rows of the queries, and the row of the target.

    It is never late: noise lifts targets from far below.
    """

    gumbel: Gumbel
    step: int
    queries: Int[Tensor, " b"]
    first: int = 0

    def scores(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "b n"]:
        """Return the noise of some rows."""
        return self.gumbel(self.step, self.queries, rows + self.first)

    def of(self, places: Int[Tensor, " c"] | slice) -> "Noise":
        """Return the noise of some queries."""
        return replace(self, queries=self.queries[places])

    def starting_at(self, first: int) -> "Noise":
        """Return the noise of a part of the corpus."""
        return replace(self, first=self.first + first)


@final
@dataclass(frozen=True)
class Residuals(Added):
    """What a memory knows at a step of the targets' residuals r: `q.r`."""

    memory: ResidualMemory
    step: int
    vectors: Float[Tensor, "b d"]
    first: int = 0

    def scores(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "b n"]:
        """Return the scores of the residuals of some rows."""
        return self.memory.scores(self.vectors, rows + self.first, self.step)

    def of(self, places: Int[Tensor, " c"] | slice) -> "Residuals":
        """Return the residuals' scores for some queries."""
        return replace(self, vectors=self.vectors[places])

    def starting_at(self, first: int) -> "Residuals":
        """Return the residuals' scores in a part of the corpus."""
        return replace(self, first=self.first + first)

    @property
    def late(self) -> PairScores:
        """Return how to score some rows of each query: a residual hardly lifts one from far."""
        return lambda rows: self.memory.pair_scores(self.vectors, rows + self.first, self.step)


@final
@dataclass(frozen=True)
class Sum(Added):
    """Two things added, such as residuals and noise; a scan may not do without their sum."""

    one: Added
    other: Added

    def scores(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "b n"]:
        """Return the sum for some rows."""
        return self.one.scores(rows) + self.other.scores(rows)

    def of(self, places: Int[Tensor, " c"] | slice) -> "Sum":
        """Return the sum for some queries."""
        return Sum(self.one.of(places), self.other.of(places))

    def starting_at(self, first: int) -> "Sum":
        """Return the sum in a part of the corpus."""
        return Sum(self.one.starting_at(first), self.other.starting_at(first))
