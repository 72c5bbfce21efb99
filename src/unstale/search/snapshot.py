"""A corrected copy of the buffer, renewed row after row, in which at most two versions of h meet.

A pass over the rows uses h as it was when the pass began. Rows before the position are corrected
by that version, rows after it by the one before, and before the first pass they are stale. Scores
of different versions cannot be compared as they are: cross-entropy leaves h free up to a vector
common to all targets, which moves quickly. So each version is scanned with a query of its own, in
which h as it is now has replaced that version, linearised.
"""

from copy import deepcopy
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.stored import Precision, Stored
from unstale.corrector.network import Corrector
from unstale.search.linear import Linearised, Neighbourhood
from unstale.search.vectors import CORRECTED, Vectors


class Part(NamedTuple):
    """Rows of one version, and how to score them: `queries @ rows.T + offset`."""

    start: int
    stop: int
    vectors: Vectors
    queries: Float[Tensor, "b d"]
    offset: Float[Tensor, "b 1"]


@final
class Snapshot:
    """Serve the buffer as some version of h sees it, and renew it.

    Args:
        buffer: The stale embeddings.
        corrector: h, which moves.
        precision: How to store corrected rows. Nothing is stored before the first renewal.
        order: Which row of the buffer stands at each place; by default its own.
        stored: The stale rows in that order, to be overwritten; needed if there is an order.
    """

    def __init__(
        self,
        buffer: Vectors,
        corrector: Corrector,
        precision: Precision = "float32",
        order: Int[Tensor, " n"] | None = None,
        stored: Stored | None = None,
    ) -> None:
        self.buffer = buffer
        self.corrector = corrector
        self.precision = precision
        self.order = order
        self.stored = stored
        self._own = stored is not None  # the rows after the position are in `stored`, too
        self.position = len(buffer)
        self.renewed = 0  # rows corrected so far, in all passes
        self.before: Corrector | None = None
        self.current: Corrector | None = None

    def complete(self) -> bool:
        """Tell whether a pass has reached the end, and another may begin."""
        return self.position >= len(self.buffer)

    def open_pass(self) -> None:
        """Begin a pass with h as it is now; rows keep the version they have until reached."""
        if self.stored is None:
            device = self.buffer.device
            self.stored = Stored(len(self.buffer), self.buffer.dim, self.precision, device)
        elif self.current is not None:
            self._own = True
        self.before, self.current = self.current, frozen(self.corrector)
        self.position = 0

    @torch.no_grad()
    def renew(self, count: int) -> None:
        """Correct the next rows of a pass."""
        assert self.current is not None
        assert self.stored is not None
        stop = min(self.position + count, len(self.buffer))
        for places in torch.arange(self.position, stop, device=self.buffer.device).split(CORRECTED):
            self.stored.write(self.position, self.current(self.buffer[self.rows(places)]))
            self.position += len(places)
            self.renewed += len(places)

    def rows(self, places: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Return which rows of the buffer stand at some places."""
        return places if self.order is None else self.order.to(places.device)[places]

    def parts(self, queries: Float[Tensor, "b d"], around: Neighbourhood) -> list[Part]:
        """Return the rows by version, each with the queries that score them as h would now."""
        now = Linearised(self.corrector, around)
        pulled, level = now.pull_back(queries), (queries * now.mean).sum(dim=1, keepdim=True)
        found = []
        old = self.stored if self._own and self.stored is not None else self.buffer
        ends = (0, self.position, len(self.buffer))
        if self.current is None:  # all rows are still stale
            ends = (0, 0, len(self.buffer))
        elif self.complete():
            ends = (0, len(self.buffer), len(self.buffer))
        for start, stop, version, vectors in (
            (ends[0], ends[1], self.current, self.stored),
            (ends[1], ends[2], self.before, old),
        ):
            if start < stop and vectors is not None:
                then = Linearised(version, around)
                u = then.solve(pulled, start=queries)
                offset = level - (u * then.mean).sum(dim=1, keepdim=True)
                found.append(Part(start, stop, vectors, u, offset))
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold: the versions, the position and the stored rows."""
        state = {"position": torch.tensor([self.position, int(self._own), self.renewed])}
        for name, version in (("before", self.before), ("current", self.current)):
            if version is not None:
                state |= {f"{name}.{k}": v.clone() for k, v in version.state_dict().items()}
        if self.stored is not None and self.current is not None:
            filled = len(self.buffer) if self._own else self.position
            state["stored"] = self.stored.data[:filled].clone()
            state["scales"] = self.stored.scales[:filled].clone()
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where another left off."""
        self.position, own, self.renewed = state["position"].tolist()
        self._own = bool(own)
        self.before = self._version(state, "before.")
        self.current = self._version(state, "current.")
        if "stored" in state:
            if self.stored is None:
                device = self.buffer.device
                self.stored = Stored(len(self.buffer), self.buffer.dim, self.precision, device)
            self.stored.data[: len(state["stored"])] = state["stored"].to(self.stored.device)
            self.stored.scales[: len(state["scales"])] = state["scales"].to(self.stored.device)

    def _version(self, state: dict[str, Tensor], prefix: str) -> Corrector | None:
        own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        if not own:
            return None
        version = frozen(self.corrector)
        version.load_state_dict(own)
        return version


def frozen(corrector: Corrector) -> Corrector:
    """Copy a corrector as it is now."""
    return deepcopy(corrector).requires_grad_(False)
