"""What the corrector missed, remembered: the last residual of every target that was encoded.

Training encodes its candidates anyway, and each fresh embedding says how far off h was for that
target: r = g(y) - h(b). Until the encoder has moved on, h(b) + r is a better guess than h(b), and
it costs no encoding. Residuals of different ages must compare, so h must be pinned down: by unit
output, or by a mean-squared error. Cross-entropy alone leaves others free by a common vector.
"""

from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from unstale.corrector.dots import dots
from unstale.distributed import total

_GATHERED = 2**22  # floats to gather at once


@final
class Rows(NamedTuple):
    """A tensor with a row for each target that this process holds, and the first of these rows."""

    tensor: Shaped[Tensor, "n ..."]
    first: int = 0


@final
class ResidualMemory:
    """Keep the last residual of each target that was encoded.

    It takes as much memory as a float32 buffer, stays on its device, and may be asked for rows and
    queries of another.

    Args:
        targets: N, the size of the corpus.
        dim: D.
        first: The first row, where another process keeps those before it.
    """

    def __init__(
        self, targets: int, dim: int, first: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        self.first = first
        self.residual = torch.zeros(targets, dim, device=device)
        self.known = torch.zeros(targets, dtype=torch.bool, device=device)

    def row_tensors(self) -> dict[str, Rows]:
        """Name the tensors that a checkpoint must hold."""
        tensors = {"residual": self.residual, "known": self.known}
        return {name: Rows(tensor, self.first) for name, tensor in tensors.items()}

    def write(self, rows: Int[Tensor, " n"], residual: Float[Tensor, "n d"]) -> None:
        """Remember residuals; each row's last one counts."""
        here, own = self._own(rows)
        self.residual[own] = residual.detach().to(self.residual)[here]
        self.known[own] = True

    def read(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        """Return what to add to corrected embeddings; zero for targets never encoded."""
        here, own = self._own(rows)
        found = self.residual.new_zeros(len(rows), self.residual.shape[1])
        found[here] = self.residual[own]
        return total(found.to(rows.device))

    def _own(self, rows: Int[Tensor, " n"]) -> tuple[Int[Tensor, " m"], Int[Tensor, " m"]]:
        """Return the places, among some rows, of those that are kept here, and theirs here."""
        own = rows.to(self.residual.device) - self.first
        here = ((own >= 0) & (own < len(self.residual))).nonzero()[:, 0]
        return here, own[here]

    def scores(
        self, queries: Float[Tensor, "b d"], rows: Int[Tensor, " n"] | slice
    ) -> Float[Tensor, "b n"]:
        """Compute `queries @ read(rows).T` for rows that are kept in this process.

        On a CPU only the targets that were ever encoded cost anything, as long as they are few.
        Elsewhere a host that asked how many these are would wait for the device.
        """
        if isinstance(rows, slice):
            rows = slice(rows.start - self.first, rows.stop - self.first)
        else:
            rows = rows.to(self.residual.device) - self.first
        if self.residual.device.type == "cpu":
            known = self.known[rows]
            places = known.nonzero()[:, 0]
            if 2 * len(places) <= len(known):
                some = places + rows.start if isinstance(rows, slice) else rows[places]
                turned = queries.new_zeros(len(known), len(queries))
                residual = self.residual[some].to(queries.device)
                turned[places.to(queries.device)] = residual @ queries.T
                return turned.T.contiguous()
        return dots(queries, self.residual[rows].to(queries.device))

    def pair_scores(
        self, queries: Float[Tensor, "b d"], rows: Int[Tensor, "b m"]
    ) -> Float[Tensor, "b m"]:
        """Compute the same of some rows of each query, which are kept in this process."""
        here, own = queries.device, rows.to(self.residual.device) - self.first
        found = torch.empty(rows.shape, device=here)
        width = max(1, _GATHERED // (len(queries) * queries.shape[1]))
        for start in range(0, rows.shape[1], width):
            some = own[:, start : start + width]
            residual = self.residual[some].to(here)  # (b, m, d)
            found[:, start : start + width] = (residual @ queries[:, :, None])[:, :, 0]
        return found
