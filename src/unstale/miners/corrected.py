"""Corrected, the paper's method: search h(B), and train h on the candidates of every step."""

from typing import final

from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.losses import LOSSES, LossName
from unstale.corrector.network import Corrector
from unstale.miners.miner import Miner, Queries, View
from unstale.search.draws import Gumbel
from unstale.search.exact import Draw, Exact, Search


@final
class Corrected(Miner):
    """Search h(B) instead of B, and learn h from the fresh embeddings of the candidates.

    Args:
        buffer: The stale embeddings B.
        network: The corrector h.
        scale: The paper's beta.
        loss: `ce` or `mse`.
        search: How to search h(B); by default exactly.
        gumbel: Noise for sampling instead of a top-k.
    """

    def __init__(
        self,
        buffer: TargetBuffer,
        network: Corrector,
        *,
        scale: float,
        loss: LossName = "ce",
        search: Search | None = None,
        gumbel: Gumbel | None = None,
    ) -> None:
        super().__init__()
        self.buffer = buffer
        self.network = network
        self.scale = scale
        self.gumbel = gumbel
        self.search = search or Exact(buffer, network)
        self._correction_loss = LOSSES[loss]

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k by `q.h(b)`, or a sample from their softmax."""
        self.search.begin(queries.step)
        draw = Draw(self.gumbel, queries.step, queries.rows) if self.gumbel else None
        return self.search.top_k(queries.vectors, k, queries.positives, draw).rows

    def loss(
        self,
        queries: Float[Tensor, "b d"],
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Float[Tensor, ""]:
        """Compare P over the fresh candidates with P_h over the corrected ones."""
        corrected = self.network(self.buffer[rows])
        return self._correction_loss(queries, fresh, corrected, self.scale, within)

    def view(self, rows: Int[Tensor, " n"]) -> View:
        """Show the stale embeddings and the corrected ones."""
        stale = self.buffer[rows]
        return View(stale, self.network(stale))
