"""An approximate search of h(B): a scan with linearised queries, rescored by h where in doubt."""

from abc import abstractmethod
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.corrector.network import Corrector
from unstale.search.added import Added
from unstale.search.best import TopK, agreement, drop
from unstale.search.control import OverlapControl
from unstale.search.exact import Exact
from unstale.search.linear import Landmarks
from unstale.search.rescore import ExactScores, Rescored, add_late, rescore
from unstale.search.search import Search, check_k
from unstale.search.snapshot import Part, Snapshot
from unstale.search.vectors import Vectors

_AUDIT_EVERY, _AUDIT_FIRST = 256, 64  # steps; an exact search costs some fifty scans
_AUDITED = 4  # queries
_LANDMARKS = 2048


@final
class Scan(NamedTuple):
    """What a scan shall find."""

    parts: list[Part]
    needed: int  # targets of each query that must be found
    fetch: int  # targets of each query to return, if there are as many
    checked: Int[Tensor, " c"]  # queries of which more may be scanned, to see what others miss
    added: Added | None  # what the scores of the scan must hold


class Approximate(Search):
    """Search h(B) at about the price of searching B, nearly exactly.

    h is nearly linear around each query's best targets, so it moves to the query. Then a scan of
    vectors that need not be fresh ranks targets almost as h does, and only those whose scores are
    near the k-th are corrected exactly. What is scanned is a snapshot: at first the stale buffer,
    then, once renewing it pays, an older h of it, which leaves less to linearise. Every few steps a
    check rescores all that was fetched for some queries and sees what was missed; more rarely
    some are searched exactly.

    Args:
        snapshot: What to scan, of which buffer and through which corrector.
        overlap: The overlap that rescoring has to hold.
        seed: The seed of the landmarks, targets that tell where a query's best targets lie.
    """

    def __init__(self, snapshot: Snapshot, overlap: float, seed: int) -> None:
        self.snapshot = snapshot
        self.control = OverlapControl(overlap)
        self._landmarks = Landmarks(snapshot.buffer, _LANDMARKS, seed)
        self._step = -1

    @property
    def buffer(self) -> Vectors:
        """Return the stale embeddings."""
        return self.snapshot.buffer

    @property
    def corrector(self) -> Corrector:
        """Return h, as it is now."""
        return self.snapshot.corrector

    @abstractmethod
    def _renew(self) -> None:
        """Renew some rows of the snapshot, once a step."""

    @abstractmethod
    def _scan(self, scan: Scan) -> TopK:
        """Rank targets by their approximate scores."""

    @abstractmethod
    def _learn(self, scan: Scan, rescored: Rescored, audited: float | None) -> None:
        """Take in what a search measured, beyond what the control does."""

    def begin(self, step: int) -> None:
        """Renew some rows of the snapshot, once a step."""
        if step != self._step:
            self._step = step
            self._renew()

    @torch.no_grad()
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        added: Added | None = None,
    ) -> TopK:
        """Return the k best targets of each query, none of which is among its excluded rows.

        The scores of targets that are in the top k without doubt are approximate.
        """
        check_k(k, self.buffer)
        width = 0 if exclude is None else exclude.shape[1]
        scan = self.prepare(queries, k, width, added)
        fetched = add_late(self._scan(scan), added)
        if exclude is not None:
            left = max(k, fetched.best.rows.shape[1] - width)
            fetched = fetched._replace(best=drop(fetched.best, exclude, left))
        exact = ExactScores(queries, self.buffer, self.corrector, added)
        rescored = rescore(fetched, k, self.control.tolerance, scan.checked, exact)
        self.control.observe(rescored)
        audited = None
        if self._step % _AUDIT_EVERY == _AUDIT_FIRST:
            audited = self.control.audited = self._audit(rescored.best, exact, exclude)
        self._learn(scan, rescored, audited)
        return rescored.best

    def prepare(
        self, queries: Float[Tensor, "b d"], k: int, width: int, added: Added | None
    ) -> Scan:
        """Linearise h into the queries, and decide how deep to scan."""
        n, needed = len(self.buffer), k + width
        return Scan(
            self.snapshot.parts(queries, self._landmarks.around(self.corrector, queries)),
            min(needed, n),
            min(needed + max(k, self.control.depth), n),
            self.control.checked(max(self._step, 0), len(queries)).to(queries.device),
            None if added is None or added.late is not None else added,
        )

    def rescore(
        self,
        found: TopK,
        low: Float[Tensor, "b 1"],
        high: Float[Tensor, "b 1"],
        queries: Float[Tensor, "b d"],
        added: Added | None,
    ) -> TopK:
        """Score exactly what was found between two scores, or so near that it is in doubt."""
        tolerance = self.control.tolerance
        doubted = (found.scores >= low - tolerance) & (found.scores <= high + tolerance)
        exact = ExactScores(queries, self.buffer, self.corrector, added).of(found.rows, doubted)
        return TopK(torch.where(doubted, exact, found.scores), found.rows)

    def _audit(self, best: TopK, exact: ExactScores, exclude: Int[Tensor, "b p"] | None) -> float:
        """Return the share of the exact top k of the first queries that was found."""
        some, k = slice(_AUDITED), best.rows.shape[1]
        known = None if exclude is None else exclude[some]
        added = None if exact.added is None else exact.added.of(some)
        true = Exact(self.buffer, self.corrector).top_k(exact.queries[some], k, known, added)
        return agreement(best.rows[some], true.rows)

    @property
    def readings(self) -> dict[str, float]:
        """Return the overlap, the error and what was rescored and renewed."""
        return self.control.readings | {"renewed": float(self.snapshot.renewed)}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold to resume the search as if never interrupted."""
        state = {"step": torch.tensor(self._step)}
        return state | self.control.state_dict() | self.snapshot.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Resume from the state of a checkpoint."""
        self._step = int(state["step"])
        self.control = OverlapControl.of(state)
        self.snapshot.load_state_dict(state)
