"""Search where the rows are: every process its own, the best of all merged in each."""

from collections.abc import Callable
from typing import final

from jaxtyping import Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer
from unstale.distributed import gather, world
from unstale.search.best import TopK
from unstale.search.search import Asked, Search, check_k


def search_in_place(buffer: Buffer, build: Callable[[TargetBuffer], Search]) -> Search:
    """Build a search of a buffer, or, if that is sharded, of every process's part of it."""
    local = build(buffer.local)
    return local if len(buffer.local) == len(buffer) else Sharded(local, buffer)


def merge_processes(found: TopK, k: int) -> TopK:
    """Take the best k of what every process found for the same queries, in all of them."""
    if world() == 1:
        return found
    # (processes * m, b): gathered under each other, whatever m is in each.
    scores, rows = (gather(t.T.contiguous()).T for t in found)
    best = scores.topk(min(k, scores.shape[1]), dim=1)
    return TopK(best.values, rows.gather(1, best.indices))


@final
class Sharded(Search):
    """Take the top k of every process's rows, and of those the top k.

    All processes ask the same queries at the same time. They exchange k scores and rows for
    each query and process, whatever the size of the buffer.
    """

    def __init__(self, local: Search, buffer: Buffer) -> None:
        self.local = local
        self.buffer = buffer

    def begin(self, step: int) -> None:
        """Prepare the local search."""
        self.local.begin(step)

    def remember(self, rows: Int[Tensor, " n"]) -> None:
        """Tell the local search which of its rows have other residuals."""
        own = rows - self.buffer.start
        self.local.remember(own[(own >= 0) & (own < len(self.buffer.local))])

    def find(self, asked: Asked, k: int) -> TopK:
        """Return the k best targets of each query, in every process."""
        check_k(k, len(self.buffer))
        wanted = k + asked.width
        # Noise and residuals are keyed by the row in the corpus, not in this process's part.
        added = None if asked.added is None else asked.added.starting_at(self.buffer.start)
        own = Asked(asked.queries, None, added)
        found = self.local.find(own, min(wanted, len(self.buffer.local)))
        merged = self._merge(found, wanted)
        # An approximate search is exact near the k-th of its own rows, not near that of all.
        low, high = merged.scores[:, -1:], merged.scores[:, k - 1 : k]
        rescored = self.local.rescore(found, low, high, own)
        if rescored is not found:
            merged = self._merge(rescored, wanted)
        return asked.allowed(merged, k)

    def _merge(self, found: TopK, k: int) -> TopK:
        return merge_processes(TopK(found.scores, found.rows + self.buffer.start), k)

    @property
    def readings(self) -> dict[str, float]:
        """Return the readings of this process's part of the search."""
        return self.local.readings

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of this process's part of the search."""
        return self.local.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Resume the part of the search that the same process had, of as many processes."""
        self.local.load_state_dict(state)
