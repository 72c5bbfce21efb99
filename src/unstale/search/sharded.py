"""Search where the rows are: every process its own, the best of all merged in each."""

from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer, ShardedBuffer
from unstale.distributed import gather
from unstale.search.band import settle_between
from unstale.search.best import TopK, drop
from unstale.search.draws import Noise
from unstale.search.exact import Draw, Search, check_k
from unstale.search.ivf import IVF
from unstale.search.rolling import Rolling


def search_in_place(buffer: Buffer, build: Callable[[TargetBuffer], Search]) -> Search:
    """Build a search of a buffer, or, if that is sharded, of every process's part of it."""
    if isinstance(buffer, TargetBuffer):
        return build(buffer)
    return Sharded(build(buffer.local), buffer)


@final
class Sharded:
    """Take the top k of every process's rows, and of those the top k.

    All processes ask the same queries at the same time. What travels is k scores and rows for
    each query and process, whatever the size of the buffer.
    """

    def __init__(self, local: Search, buffer: ShardedBuffer) -> None:
        self.local = local
        self.buffer = buffer

    def begin(self, step: int) -> None:
        """Prepare the local search."""
        self.local.begin(step)

    @torch.no_grad()
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        draw: Draw | None = None,
    ) -> TopK:
        """Return the k best targets of each query, in every process."""
        check_k(k, self.buffer)
        width = exclude.shape[1] if exclude is not None else 0
        fetch = min(k + width, len(self.buffer.local))
        if draw is not None:
            draw = _moved(draw, self.buffer.start)
        found = self.local.top_k(queries, fetch, None, draw)
        merged = self._merge(found, k + width)
        if isinstance(self.local, Rolling | IVF):  # exact near the k-th of its own rows only
            low, high = merged.scores[:, -1:], merged.scores[:, k - 1 : k]
            own = self.local.pace.tolerance, queries, self.local.buffer, self.local.corrector
            found = settle_between(found, low, high, *own, draw)
            merged = self._merge(found, k + width)
        return merged if exclude is None else drop(merged, exclude, k)

    def _merge(self, found: TopK, k: int) -> TopK:
        # (processes * m, b): gathered under each other, whatever m is in each.
        rows = found.rows + self.buffer.start
        scores, rows = (gather(t.T.contiguous()).T for t in (found.scores, rows))
        best = scores.topk(min(k, scores.shape[1]), dim=1)
        return TopK(best.values, rows.gather(1, best.indices))

    @property
    def readings(self) -> dict[str, float]:
        """Return what this process's part of the search finds worth logging."""
        return getattr(self.local, "readings", {})

    def state_dict(self) -> dict[str, Tensor]:
        """Return what this process's part of the search remembers."""
        return self.local.state_dict() if hasattr(self.local, "state_dict") else {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where as many processes left off."""
        local: Any = self.local
        if hasattr(local, "load_state_dict") and state:
            local.load_state_dict(state)


def _moved(draw: Draw, start: int) -> Draw:
    late = draw.late
    moved = None if late is None else lambda rows: late(rows + start)
    return draw._replace(gumbel=_Moved(draw.gumbel, start), late=moved)


@final
class _Moved:
    """Key draws by the row in the corpus, not in this process's part of it."""

    def __init__(self, noise: Noise, start: int) -> None:
        self.noise = noise
        self.start = start

    def __call__(
        self, step: int, queries: Int[Tensor, " b"], rows: Int[Tensor, " n"]
    ) -> Float[Tensor, "b n"]:
        """Return the noise of rows of this part."""
        return self.noise(step, queries, rows + self.start)
