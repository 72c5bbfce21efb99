"""Stale: search the embeddings that the encoder had before training."""

from typing import final

from jaxtyping import Int
from torch import Tensor

from unstale.buffer.sharded import Buffer
from unstale.miners.miner import Miner, Queries, View
from unstale.search.added import Noise
from unstale.search.draws import Gumbel
from unstale.search.exact import Exact
from unstale.search.search import Search
from unstale.search.sharded import search_in_place


@final
class Stale(Miner):
    """Search B as it was embedded once; it is never updated."""

    def __init__(self, buffer: Buffer, gumbel: Gumbel | None = None) -> None:
        super().__init__()
        self.buffer = buffer
        self.gumbel = gumbel
        self.search = search_in_place(buffer, Exact)

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k by `q.b`, or a sample from their softmax."""
        noise = Noise(self.gumbel, queries.step, queries.rows) if self.gumbel else None
        return self.search.top_k(queries.vectors, k, queries.positives, noise).rows

    def view(self, rows: Int[Tensor, " n"]) -> View:
        """Show the stale embeddings."""
        return View(self.buffer[rows])

    def searches(self) -> list[Search]:
        """List the search of the buffer."""
        return [self.search]
