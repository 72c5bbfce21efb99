"""An approximate search of h(B): a scan with linearised queries, rescored by h where in doubt."""

from abc import abstractmethod
from dataclasses import replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.search.added import Added
from unstale.search.best import TopK, agreement
from unstale.search.control import OverlapControl
from unstale.search.exact import Exact
from unstale.search.linear import Landmarks
from unstale.search.rescore import ExactScores, Rescored, add_late, rescore
from unstale.search.search import Asked, Search, check_k
from unstale.search.snapshot import Part, Snapshot

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
        seed: The seed of the landmarks, targets that tell where a query's best targets lie.
    """

    def __init__(self, snapshot: Snapshot, overlap: float, seed: int) -> None:
        self.snapshot = snapshot
        self.buffer = snapshot.buffer
        self.corrector = snapshot.corrector
        self.control = OverlapControl(overlap)
        self._landmarks = Landmarks(snapshot.buffer, _LANDMARKS, seed)
        self._step = -1

    def _prepare(self) -> None:
        """Make what the first search needs."""
        self.snapshot.begin()

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
        self._prepare()
        if step != self._step:
            self._step = step
            self._renew()

    def remember(self, rows: Int[Tensor, " n"]) -> None:
        """Serve the snapshot with the residuals that the rows have now."""
        self.snapshot.remember(rows)

    def find(self, asked: Asked, k: int) -> TopK:
        """Scan, rescore what is in doubt, and learn from what that measures."""
        check_k(k, len(self.buffer))
        self._prepare()
        scan = self.plan_scan(asked, k)
        held = self.snapshot.memory is not None  # by the snapshot, so that nothing comes late
        fetched = add_late(self._scan(scan), None if held else asked.added)
        left = max(k, fetched.best.rows.shape[1] - asked.width)
        fetched = fetched._replace(best=asked.allowed(fetched.best, left))
        exact = ExactScores(asked, self.buffer, self.corrector)
        rescored = rescore(fetched, k, self.control.tolerance, scan.checked, exact)
        self.control.observe(rescored)
        audited = None
        if self._step % _AUDIT_EVERY == _AUDIT_FIRST:
            audited = self.control.audited = self._audit(rescored.best, asked)
        self._learn(scan, rescored, audited)
        return rescored.best

    def plan_scan(self, asked: Asked, k: int) -> Scan:
        """Linearise h into the queries, and decide how deep to scan."""
        queries, added = asked.queries, asked.added
        n, needed = len(self.buffer), k + asked.width
        return Scan(
            self.snapshot.parts(queries, self._landmarks.around(self.corrector, queries)),
            min(needed, n),
            min(needed + max(k, self.control.depth), n),
            self.control.checked(max(self._step, 0), len(queries)).to(queries.device),
            self._in_scan(added),
        )

    def _in_scan(self, added: Added | None) -> Added | None:
        """Return what the scores of a scan must hold beyond those of the snapshot."""
        if added is None or self.snapshot.memory is None:
            return None if added is None or added.late is not None else added
        assert added.memory is self.snapshot.memory, "another memory than that of the snapshot"
        return None if added.gumbel_seed is None else replace(added, memory=None)

    def rescore(
        self, found: TopK, low: Float[Tensor, "b 1"], high: Float[Tensor, "b 1"], asked: Asked
    ) -> TopK:
        """Score exactly what was found between two scores, or so near that it is in doubt."""
        tolerance = self.control.tolerance
        doubted = (found.scores >= low - tolerance) & (found.scores <= high + tolerance)
        exact = ExactScores(asked, self.buffer, self.corrector).of(found.rows, doubted)
        return TopK(torch.where(doubted, exact, found.scores), found.rows)

    def _audit(self, best: TopK, asked: Asked) -> float:
        """Return the share of the exact top k of the first queries that was found."""
        exact = Exact(self.buffer, self.corrector)
        true = exact.find(asked.first(_AUDITED), best.rows.shape[1])
        return agreement(best.rows[:_AUDITED], true.rows)

    @property
    def readings(self) -> dict[str, float]:
        """Return the overlap, the error and what was rescored and renewed."""
        return self.control.readings | {"renewed": float(self.snapshot.renewed)}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold to resume the search as if never interrupted."""
        own = {"step": torch.tensor(self._step), "control": self.control.state}
        return own | self.snapshot.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Resume from the state of a checkpoint."""
        self._step = int(state["step"])
        self.control = OverlapControl.of(state["control"])
        self.snapshot.load_state_dict(state)
