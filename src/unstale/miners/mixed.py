"""Mixed: two miners' targets, such as hard and uniform ones in the paper's appendix."""

from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.miners.miner import Dropped, Embed, Embedded, Miner, Queries, Reading, View
from unstale.search.search import Search


@final
class Mixed(Miner):
    """Add `count` targets a query of one miner, which learns nothing, to what another chooses."""

    def __init__(self, miner: Miner, company: Miner, count: int) -> None:
        super().__init__()
        self.miner = miner
        self.company = company
        self.count = count

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b m"]:
        """Choose k targets of the one and `count` of the other for each query."""
        hard = self.miner.mine(queries, k)
        return torch.cat([hard, self.company.mine(queries, self.count)], dim=1)

    def dropped(self) -> Dropped | None:
        """Tell what was dropped of the other miner's targets."""
        return self.miner.dropped()

    def refresh(self, step: int, embed: Embed) -> Embedded:
        """Refresh the other miner."""
        return self.miner.refresh(step, embed)

    def loss(
        self,
        queries: Float[Tensor, "b d"],
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Float[Tensor, ""]:
        """Train the other miner on all the candidates, its company's too."""
        return self.miner.loss(queries, fresh, rows, within)

    def heed(self, reading: Reading) -> None:
        """Tell the other miner."""
        self.miner.heed(reading)

    def view(self, rows: Int[Tensor, " n"]) -> View | None:
        """Show what the other miner sees."""
        return self.miner.view(rows)

    def searches(self) -> list[Search]:
        """List the searches of the other miner."""
        return self.miner.searches()

    def row_tensors(self) -> dict[str, int]:
        """Name the tensors of the other miner."""
        return {f"miner.{name}": first for name, first in self.miner.row_tensors().items()}
