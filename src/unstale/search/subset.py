"""A random subset of the buffer, rotated: the paper's first answer to a buffer that does not fit.

"Subsample targets randomly (perhaps changing the subset periodically) to fit on device memory ...
which would require no re-encoding of targets."
"""

from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.search.added import Added
from unstale.search.best import TopK
from unstale.search.draws import subset
from unstale.search.exact import Exact
from unstale.search.search import Search


@final
class RotatingSubset(Search):
    """Search `size` random targets through the corrector, and change them every few steps.

    The buffer may be on disk: only the subset is in memory, where the corrector is.
    """

    def __init__(
        self,
        buffer: TargetBuffer,
        corrector: Corrector | None = None,
        *,
        size: int,
        every: int,
        seed: int,
    ) -> None:
        self.buffer = buffer
        self.corrector = corrector
        self.size = min(size, len(buffer))
        self.every = max(1, every)
        self.seed = seed
        self._epoch = -1
        self._exact = self._draw(0)

    def begin(self, step: int) -> None:
        """Change the subset if it is time; a function of the step alone."""
        if step // self.every != self._epoch:
            self._exact = self._draw(step // self.every)

    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        added: Added | None = None,
    ) -> TopK:
        """Return the k best targets of the subset."""
        return self._exact.top_k(queries, k, exclude, added)

    def _draw(self, epoch: int) -> Exact:
        self._epoch = epoch
        rows = subset(len(self.buffer), self.size, self.seed, epoch)
        weights = () if self.corrector is None else self.corrector.parameters()
        device = next((w.device for w in weights), self.buffer.device)
        return Exact(TargetBuffer([self.buffer[rows.to(device)]]), self.corrector, rows=rows)
