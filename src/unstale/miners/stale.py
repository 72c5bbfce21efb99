"""Stale: search the embeddings that the encoder had before training."""

from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.sharded import Buffer
from unstale.corrector.memory import ResidualMemory
from unstale.miners.miner import Miner, Queries, Ranked, View
from unstale.miners.strategy import built_by
from unstale.search.added import Added
from unstale.search.exact import Exact
from unstale.search.search import Search
from unstale.search.sharded import search_in_place


@final
class Stale(Miner):
    """Search B as it was embedded once; it is never updated.

    Args:
        gumbel_seed: Seed of Gumbel noise, to sample instead of taking the top k.
    """

    def __init__(self, buffer: Buffer, gumbel_seed: int | None = None) -> None:
        super().__init__()
        self.buffer = buffer
        self.gumbel_seed = gumbel_seed
        self.search = search_in_place(buffer, Exact)

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k by `q.b`, or a sample from their softmax."""
        added = added_to(queries, self.gumbel_seed)
        return self.search.top_k(queries.vectors, k, queries.positives, added).rows

    def view(self, rows: Int[Tensor, " n"]) -> View:
        """Show the stale embeddings."""
        return View(self.buffer[rows])

    def ranked(
        self, queries: Float[Tensor, "q d"], k: int, exclude: Int[Tensor, "q p"] | None = None
    ) -> Ranked:
        """Find the k best targets of the buffer."""
        return Ranked(self.search.top_k(queries, k, exclude))

    def searches(self) -> list[Search]:
        """List the search of the buffer."""
        return [self.search]


def added_to(
    queries: Queries, gumbel_seed: int | None, memory: ResidualMemory | None = None
) -> Added | None:
    """Return what a search adds to scores: noise by its seed, what a memory knows, or both."""
    if gumbel_seed is None and memory is None:
        return None
    return Added(queries.step, queries.vectors, queries.rows, memory, gumbel_seed, queries.scale)


STRATEGY = built_by("stale", lambda materials: Stale(materials.cache, materials.gumbel_seed))
