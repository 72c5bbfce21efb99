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

from unstale.buffer.stored import Stored
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.search.linear import Linearised, Neighbourhood
from unstale.search.vectors import Vectors, corrected_rows
from unstale.settings import Precision

_CHUNK = 65_536
_TINY = 1e-12


@final
class Part(NamedTuple):
    """Rows of one version, and how to score them: `queries @ rows.T + offset * inverse`.

    Rows of unit length were divided by their norms, and so must be the offset: `inverse` is one
    over the norm of each row from `start` to `stop`, or a single 1 if rows are as h made them.
    """

    start: int
    stop: int
    vectors: Vectors
    queries: Float[Tensor, "b d"]
    offset: Float[Tensor, "b 1"]
    inverse: Float[Tensor, " n"]

    def inverses(self, start: int, stop: int) -> Float[Tensor, " m"]:
        """Return `inverse` of some rows, or the single 1."""
        single = len(self.inverse) == 1 < self.stop - self.start
        return self.inverse if single else self.inverse[start - self.start : stop - self.start]


@final
class Snapshot:
    """Serve the buffer as some version of h sees it, and renew it.

    Args:
        buffer: The stale embeddings.
        corrector: h.
        precision: The precision of the copy.
        memory: Add to each row what h missed of it, so that a scan need not.
    """

    def __init__(
        self,
        buffer: Vectors,
        corrector: Corrector,
        precision: Precision = "float32",
        memory: ResidualMemory | None = None,
    ) -> None:
        self.buffer = buffer
        self.corrector = corrector
        self.memory = memory
        self.order: Tensor | None = None  # which row of the buffer stands at each place
        # On a CPU it takes no memory before it is written to.
        self.stored = Stored.empty(len(buffer), buffer.dim, precision, buffer.device)
        # With unit output the norms belong to the snapshot: they change slowly. Stale rows have 1.
        self.inverse = torch.ones(len(buffer) if corrector.unit else 1, device=buffer.device)
        self._filled = False  # the rows after the position are in `stored`, too
        self.position = len(buffer)
        self.renewed = 0  # rows corrected so far, in all passes
        self.before: Corrector | None = None
        self.current: Corrector | None = None

    def fill(self, order: Int[Tensor, " n"]) -> None:
        """Copy the stale rows, in an order of their own."""
        self.order, self._filled = order, True
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        for start, stale in self.buffer.chunks(_CHUNK):
            self.stored.write(places[start : start + len(stale)], stale)

    def begin(self) -> None:
        """Copy the stale rows and what h missed of them, if there is a memory of that."""
        if self.memory is None or self._filled:
            return
        self._filled = True
        for start, stale in self.buffer.chunks(_CHUNK):
            rows = slice(start, start + len(stale))
            self.stored.write(rows, stale + self.memory.residual[rows].to(stale.device))

    @torch.no_grad()
    def remember(self, rows: Int[Tensor, " n"]) -> None:
        """Serve some rows with what h is now known to have missed of them."""
        if self.memory is None or not self._filled:
            return  # the copy is still to be made
        reached, stale = 0 if self.current is None else self.position, self.buffer[rows]
        # Both versions of all rows: to part them would make the host wait for an accelerator.
        now, then = (stale if h is None else h(stale) for h in (self.current, self.before))
        corrected = torch.where((rows < reached)[:, None], now, then)
        self.stored.write(rows, corrected + self._residuals(rows))

    def _residuals(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        assert self.memory is not None
        kept = self.memory.residual
        return kept[rows.to(kept.device)].to(rows.device)

    def inverses(self, start: int, stop: int) -> Float[Tensor, " n"]:
        """Return one over the norms of some rows; a single 1 if norms do not matter."""
        return self.inverse[start:stop] if self.corrector.unit else self.inverse

    def complete(self) -> bool:
        """Tell whether a pass has reached the end, and another may begin."""
        return self.position >= len(self.buffer)

    def open_pass(self) -> None:
        """Begin a pass with h as it is now; rows keep the version they have until reached."""
        self._filled = self._filled or self.current is not None
        self.before, self.current = self.current, _frozen(self.corrector)
        self.position = 0

    @torch.no_grad()
    def renew(self, count: int) -> None:
        """Correct the next rows of a pass."""
        assert self.current is not None
        stop = min(self.position + count, len(self.buffer))
        device, dim = self.buffer.device, self.buffer.dim
        size = corrected_rows(device, 2 * dim + self.current.held(dim))
        for places in torch.arange(self.position, stop, device=device).split(size):
            rows = places if self.order is None else self.order.to(places.device)[places]
            corrected = self.current.unscaled(self.buffer[rows])
            if self.current.unit:
                norms = _norms(corrected)
                corrected, self.inverse[places] = corrected / norms, 1 / norms[:, 0]
            if self.memory is not None:
                corrected = corrected + self._residuals(rows)
            self.stored.write(places, corrected)
            self.position += len(places)
            self.renewed += len(places)

    def parts(self, queries: Float[Tensor, "b d"], around: Neighbourhood) -> list[Part]:
        """Return the rows by version, each with the queries that score them as h would now."""
        now = Linearised(self.corrector, around)
        pulled, level = now.pull_back(queries), (queries * now.mean).sum(dim=1, keepdim=True)
        reached = 0 if self.current is None else self.position  # at first all rows are stale
        versions = [
            (0, reached, self.current, True),
            (reached, len(self.buffer), self.before, self._filled),
        ]
        found = []
        for start, stop, version, stored in versions:
            if start < stop:
                then = Linearised(version, around)
                u = then.solve(pulled, start=queries)
                offset, inverse = level - (u * then.mean).sum(dim=1, keepdim=True), self.inverse
                if self.corrector.unit:
                    moved = _Moved(queries, around.centre, then.mean, now.mean)
                    u, offset = moved.renormalised(u, offset)
                    inverse = self.inverse[start:stop]
                vectors = self.stored if stored else self.buffer
                found.append(Part(start, stop, vectors, u, offset, inverse))
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold: the versions, the position and the stored rows.

        Like a module's, they are the tensors themselves: there may be no memory for a copy.
        """
        state = {"position": torch.tensor([self.position, int(self._filled), self.renewed])}
        for name, version in (("before", self.before), ("current", self.current)):
            if version is not None:
                state |= {f"{name}.{k}": v for k, v in version.state_dict().items()}
        if self.current is not None:
            filled = len(self.buffer) if self._filled else self.position
            for name, tensor in zip(("stored", "scales"), self.stored.tensors, strict=True):
                state[name] = tensor[:filled]
            state["inverse"] = self.inverse
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Resume from the state of a checkpoint."""
        self.position, filled, self.renewed = state["position"].tolist()
        self._filled = bool(filled)
        self.before = self._version(state, "before.")
        self.current = self._version(state, "current.")
        if self.current is None:
            self._filled = False  # the stale rows are copied again
        else:
            for name, tensor in zip(("stored", "scales"), self.stored.tensors, strict=True):
                tensor[: len(state[name])] = state[name].to(tensor.device)
            self.inverse.copy_(state["inverse"])

    def _version(self, state: dict[str, Tensor], prefix: str) -> Corrector | None:
        own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        if not own:
            return None
        version = _frozen(self.corrector)
        version.load_state_dict(own)
        return version


def _frozen(corrector: Corrector) -> Corrector:
    """Copy a corrector as it is now."""
    return deepcopy(corrector).requires_grad_(False)


class _Moved(NamedTuple):
    """How far h has moved each query's best targets since a version: the means, unnormalised."""

    queries: Float[Tensor, "b d"]
    stale: Float[Tensor, "b d"]
    then: Float[Tensor, "b d"]
    now: Float[Tensor, "b d"]

    def renormalised(
        self, u: Float[Tensor, "b d"], offset: Float[Tensor, "b 1"]
    ) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b 1"]]:
        """Turn scores over the norms of the version into scores over the norms of h now.

        A row v of norm n that moves by m gets the norm n (1 + v.m / n) to first order, so a score
        near s loses s v.m / n. What is common to a query's best targets is taken exactly.
        """
        spread = _norms(self.stale)  # the mean of unit vectors is shorter than they are
        ratio = _norms(self.then) / _norms(self.now)
        score = (self.queries * self.now).sum(dim=1, keepdim=True) / _norms(self.now) * spread
        lost = score * (self.now - self.then) * spread / _norms(self.then)
        level = (self.then * lost).sum(dim=1, keepdim=True)
        return ratio * (u - lost), ratio * (offset + level)


def _norms(vectors: Float[Tensor, "b d"]) -> Float[Tensor, "b 1"]:
    return vectors.norm(dim=1, keepdim=True).clamp(min=_TINY)
