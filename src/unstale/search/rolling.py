"""Rolling search: a scan with linearised queries, what is in doubt reranked by h, watched."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.buffer.stored import Precision
from unstale.corrector.dots import dots
from unstale.corrector.network import Corrector
from unstale.search.audit import audit, is_audited
from unstale.search.band import settle
from unstale.search.best import TopK, drop, merge, nothing
from unstale.search.exact import Draw, check_k
from unstale.search.late import add_late
from unstale.search.linear import Landmarks
from unstale.search.pace import Pace
from unstale.search.snapshot import Snapshot
from unstale.search.vectors import Vectors, on_device, span

_CHUNK = 16_384


@final
class Rolling:
    """Search h(B) at about the price of searching B, nearly exactly.

    h is linear around each query's best targets, nearly, so it moves to the query; then a scan of
    vectors that need not be fresh ranks targets almost as h does, and only those whose scores are
    near the k-th are corrected exactly. What is scanned is a snapshot: at first the stale buffer,
    then, once so much was reranked that renewing it pays, an older h of it, which leaves less to
    linearise. Every few steps a check reranks all that was fetched for some queries and sees what
    was missed; more rarely some are searched exactly. Both set how much is in doubt.

    Args:
        buffer: The stale embeddings.
        corrector: h, as it is at each search.
        overlap: The share of the exact top k to hold, on average.
        precision: Of the snapshot.
        landmarks: Targets that tell where a query's best targets lie.
        seed: Draws the landmarks.
    """

    def __init__(
        self,
        buffer: Vectors,
        corrector: Corrector,
        *,
        overlap: float = 0.99,
        precision: Precision = "float32",
        landmarks: int = 2048,
        seed: int = 0,
    ) -> None:
        self.buffer = buffer
        self.corrector = corrector
        self.pace = Pace(overlap)
        self.snapshot = Snapshot(buffer, corrector, precision)
        self._landmarks = Landmarks(buffer, landmarks, seed)
        self._step = -1

    def begin(self, step: int) -> None:
        """Renew some rows of the snapshot, once a step."""
        if step == self._step:
            return
        self._step = step
        if not self.snapshot.complete():
            self.snapshot.renew(self.pace.piece)

    @torch.no_grad()
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        draw: Draw | None = None,
    ) -> TopK:
        """Return the k best targets of each query, none of which is among its excluded rows.

        Of targets that are in the top k without doubt the scores are approximate.
        """
        check_k(k, self.buffer)
        width = exclude.shape[1] if exclude is not None else 0
        fetch = min(k + width + max(k, self.pace.depth), len(self.buffer))
        approximate, beyond = add_late(self._scan(queries, fetch, draw), draw)
        if exclude is not None:
            approximate = drop(approximate, exclude, max(k, fetch - width))
        checked = self.pace.checked(max(self._step, 0), len(queries)).to(queries.device)
        settled = settle(
            approximate,
            beyond,
            k,
            self.pace.tolerance,
            checked,
            queries,
            self.buffer,
            self.corrector,
            draw,
        )
        self.pace.observe(settled)
        if self.snapshot.complete() and self.pace.due(len(self.buffer)):
            self.snapshot.open_pass()
        if is_audited(self._step):
            exact = audit(settled.best, queries, self.buffer, self.corrector, exclude, draw)
            self.pace.audited = exact
            self.pace.judge(exact)
        return settled.best

    def _scan(self, queries: Float[Tensor, "b d"], k: int, draw: Draw | None) -> TopK:
        best = nothing(queries)
        for part in self.snapshot.parts(queries, self._landmarks.around(self.corrector, queries)):
            chunks = span(part.vectors, part.start, part.stop, _CHUNK)
            for start, vectors in on_device(chunks, queries.device):
                scores = dots(part.queries, vectors, part.offset[:, 0])
                if draw is not None and draw.late is None:
                    rows = torch.arange(start, start + len(vectors), device=queries.device)
                    scores = scores + draw.gumbel(draw.step, draw.queries, rows)
                best = merge(best, scores, start, k)
        return best

    @property
    def readings(self) -> dict[str, float]:
        """Return what is worth logging."""
        return self.pace.readings | {"renewed": float(self.snapshot.renewed)}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold for the search to go on as if never interrupted."""
        state = {"step": torch.tensor(self._step)}
        return state | self.pace.state_dict() | self.snapshot.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where another left off."""
        self._step = int(state["step"])
        self.pace.load_state_dict(state)
        self.snapshot.load_state_dict(state)
