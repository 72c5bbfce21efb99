"""A part of the corpus: let a miner that holds some of the targets speak of them by their rows."""

from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.corrector.memory import Rows
from unstale.miners.miner import Freshness, Miner, Queries, Ranked, View
from unstale.search.best import TopK
from unstale.search.search import Search


@final
class PartOfCorpus(Miner):
    """Translate between rows of the corpus and those of a miner whose buffer has only some.

    Args:
        miner: The i-th row of its buffer is the target in `rows[i]`.
        rows: Which targets it holds, sorted.
    """

    def __init__(self, miner: Miner, rows: Int[Tensor, " p"]) -> None:
        super().__init__()
        self.miner = miner
        self.rows: Tensor
        self.register_buffer("rows", rows, persistent=False)

    def covers(self) -> Int[Tensor, " p"]:
        """Return the targets that it holds."""
        return self.rows

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Choose k of the targets that it holds."""
        own = queries._replace(positives=self._places(queries.positives))
        return self.rows[self.miner.mine(own, k)]

    def loss(
        self,
        queries: Queries,
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Float[Tensor, ""]:
        """Train the miner's own weights on the candidates that it holds."""
        places = self._places(rows)
        here = (places >= 0).nonzero()[:, 0]
        if not len(here):
            return super().loss(queries, fresh, rows, within)
        own = None if within is None else within[:, here]
        return self.miner.loss(queries, fresh[here], places[here], own)

    def observe(self, reading: Freshness) -> None:
        """Let the miner take note of a reading."""
        self.miner.observe(reading)

    def view(self, rows: Int[Tensor, " n"]) -> View | None:
        """Show how the miner sees some of the targets that it holds."""
        places = self._places(rows)
        assert (places >= 0).all(), "asked for a target that is not held"
        return self.miner.view(places)

    def ranked(
        self, queries: Float[Tensor, "q d"], k: int, exclude: Int[Tensor, "q p"] | None = None
    ) -> Ranked | None:
        """Find the best k of the targets that it holds."""
        own = None if exclude is None else self._places(exclude)
        ranked = self.miner.ranked(queries, min(k, len(self.rows)), own)
        if ranked is None:
            return None
        corrected = None if ranked.corrected is None else self._found(ranked.corrected)
        return Ranked(self._found(ranked.stale), corrected, ranked.trusted)

    def searches(self) -> list[Search]:
        """List the miner's searches."""
        return self.miner.searches()

    def row_tensors(self) -> dict[str, Rows]:
        """Name the miner's tensors; they have a row for each target that it holds."""
        return self.miner.row_tensors()

    def _found(self, best: TopK) -> TopK:
        return best._replace(rows=self.rows[best.rows])

    def _places(self, rows: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Return the miner's own rows of targets, -1 for those that it does not hold."""
        places = torch.searchsorted(self.rows, rows).clamp(max=len(self.rows) - 1)
        return torch.where(self.rows[places] == rows, places, -1)
