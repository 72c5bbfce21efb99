"""Stale: search the embeddings that the encoder had before training."""

from typing import final

from jaxtyping import Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.miners.miner import Miner, Queries, View
from unstale.search.draws import Gumbel
from unstale.search.exact import Draw, Exact


@final
class Stale(Miner):
    """Search B as it was embedded once; it is never updated."""

    def __init__(self, buffer: TargetBuffer, gumbel: Gumbel | None = None) -> None:
        super().__init__()
        self.buffer = buffer
        self.gumbel = gumbel
        self.search = Exact(buffer)

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k by `q.b`, or a sample from their softmax."""
        draw = Draw(self.gumbel, queries.step, queries.rows) if self.gumbel else None
        return self.search.top_k(queries.vectors, k, queries.positives, draw).rows

    def view(self, rows: Int[Tensor, " n"]) -> View:
        """Show the stale embeddings."""
        return View(self.buffer[rows])
