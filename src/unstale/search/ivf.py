"""Corrected IVF, for millions of targets: only the cells that may hold the best are scanned.

Cells are made of stale vectors, once. A cell is judged by the mean of its snapshot rows, scored
as rows are, with h linearised into the query; so cells follow h as it moves targets. Of two cells
with equal means the wider can hold better rows, so spread counts for a cell.
"""

from bisect import bisect_left
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.buffer.stored import Precision, Stored
from unstale.corrector.network import Corrector
from unstale.errors import InputError
from unstale.search.audit import audit, is_audited
from unstale.search.band import settle
from unstale.search.best import TopK, drop
from unstale.search.cells import cell_count, make_cells
from unstale.search.exact import Draw, check_k
from unstale.search.late import add_late
from unstale.search.linear import Landmarks
from unstale.search.pace import Pace
from unstale.search.snapshot import Part, Snapshot
from unstale.search.vectors import Vectors

_MEMORY = 0.95  # share of the past in what is known of where the best were
_CHUNK = 65_536
_REACH = 2.5  # deviations from the mean of a cell at which its best row is expected
_FEWEST = 8  # cells that a query searches: fewer would blind the check
_WIDER = 4  # times the cells that a checked query searches


@final
class IVF:
    """Search the best cells of h(B), and rerank what is in doubt.

    The time of a search grows with the square root of N, as long as there are that many cells.
    Every few steps some queries search several times the cells, and where they find the best sets
    how many cells are searched. A sample drawn with Gumbel noise is one of the targets in those.

    Args:
        buffer: The stale embeddings; rows to rerank are read from it, so it may be on disk.
        corrector: h, as it is at each search.
        overlap: The share of the exact top k to hold, on average.
        precision: Of the snapshot, a copy of the buffer in the order of the cells.
        cells: How many; 0 for 4 sqrt(N), at most 8,192.
        probes: Cells that a query searches at first.
        landmarks: Targets that tell where a query's best targets lie.
        seed: Of the cells and landmarks.
    """

    def __init__(
        self,
        buffer: Vectors,
        corrector: Corrector,
        *,
        overlap: float = 0.97,
        precision: Precision = "float32",
        cells: int = 0,
        probes: int = 32,
        landmarks: int = 2048,
        seed: int = 0,
    ) -> None:
        if cells < 0 or probes < 1:
            raise InputError(f"cannot probe {probes} of {cells} cells")
        self.buffer = buffer
        self.corrector = corrector
        self.target = overlap
        self.probes = probes
        self.held = 1.0  # the share of the best that was in the probed cells, at the last check
        self.pace = Pace((1 + overlap) / 2)
        cut = make_cells(buffer, cells or cell_count(len(buffer)), seed)
        device = buffer.device
        self._starts = cut.starts.to(device)
        self._bounds: list[int] = cut.starts.tolist()
        self._order = cut.order.to(device)
        self._places = torch.empty_like(self._order, dtype=torch.int32)
        self._places[self._order] = torch.arange(len(buffer), dtype=torch.int32, device=device)
        self._stored = Stored(len(buffer), buffer.dim, precision, device)
        for start, stale in buffer.chunks(_CHUNK):
            self._stored.scatter(self._places[start : start + len(stale)].long(), stale)
        self.snapshot = Snapshot(buffer, corrector, precision, self._order, self._stored)
        self._centroids = torch.empty(len(self._bounds) - 1, buffer.dim, device=device)
        self._spreads = torch.empty(len(self._centroids), device=device)
        for cell in range(len(self._centroids)):
            self._measure(cell)
        self._ranks = torch.zeros(len(self._centroids), dtype=torch.float64)  # see _judge
        self._landmarks = Landmarks(buffer, landmarks, seed)
        self._step = -1
        self._cell = len(self._bounds) - 1  # the next of the pass

    def begin(self, step: int) -> None:
        """Renew the next cells of the snapshot, whole ones, if a renewal is due or under way."""
        if step == self._step:
            return
        self._step = step
        if self.snapshot.complete():
            if not self.pace.due(len(self.buffer)):
                return
            self.snapshot.open_pass()
            self._cell = 0
        stop = min(self.snapshot.position + self.pace.piece, len(self.buffer))
        while self.snapshot.position < stop:
            self.snapshot.renew(self._bounds[self._cell + 1] - self._bounds[self._cell])
            self._measure(self._cell)
            self._cell += 1

    @torch.no_grad()
    def top_k(
        self,
        queries: Float[Tensor, "b d"],
        k: int,
        exclude: Int[Tensor, "b p"] | None = None,
        draw: Draw | None = None,
    ) -> TopK:
        """Return the k best targets of each query, none of which is among its excluded rows."""
        check_k(k, self.buffer)
        width = exclude.shape[1] if exclude is not None else 0
        parts = self.snapshot.parts(queries, self._landmarks.around(self.corrector, queries))
        checked = self.pace.checked(max(self._step, 0), len(queries)).to(queries.device)
        cells, probed = self._choose(parts, min(k + width, len(self.buffer)), checked)
        fetch = k + width + max(k, self.pace.depth)
        approximate, beyond = add_late(self._scan(parts, cells, probed, fetch, draw), draw)
        if exclude is not None:
            approximate = drop(approximate, exclude, max(k, approximate.rows.shape[1] - width))
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
        if settled.overlap is not None:
            self._judge(settled.best.rows[checked], cells[checked])
        if is_audited(self._step):
            best = settled.best
            self.pace.audited = audit(best, queries, self.buffer, self.corrector, exclude, draw)
        return settled.best

    def _choose(
        self, parts: list[Part], needed: int, checked: Int[Tensor, " c"]
    ) -> tuple[Int[Tensor, "b m"], Bool[Tensor, "b m"]]:
        """Rank the cells of each query, and say which of them to scan: enough for all queries."""
        scores = torch.cat([self._judge_cells(part) for part in parts], dim=1)
        count = min(_WIDER * self.probes, len(self._centroids))
        sizes = self._starts.diff()
        while True:
            cells = scores.topk(count, dim=1).indices
            before = sizes[cells].cumsum(dim=1) - sizes[cells]
            probed = (torch.arange(count, device=cells.device) < self.probes) | (before < needed)
            probed[checked] = True
            if count == len(self._centroids) or not (before[:, -1] < needed).any():
                return cells, probed
            count = min(2 * count, len(self._centroids))

    def _judge_cells(self, part: Part) -> Float[Tensor, "b cells"]:
        """Score the cells of a part, by what their best rows may score."""
        # The pass goes cell by cell, so that no cell is cut.
        first, last = (bisect_left(self._bounds, end) for end in (part.start, part.stop))
        reach = _REACH * part.queries.norm(dim=1, keepdim=True) * self._spreads[first:last]
        return torch.addmm(reach + part.offset, part.queries, self._centroids[first:last].T)

    def _scan(
        self,
        parts: list[Part],
        cells: Int[Tensor, "b m"],
        probed: Bool[Tensor, "b m"],
        k: int,
        draw: Draw | None,
    ) -> TopK:
        """Score the rows of each query's cells; each cell is read once for all its queries."""
        sizes = self._starts.diff()[cells] * probed
        columns = sizes.cumsum(dim=1) - sizes  # where each query's cells begin among its scores
        total = sizes.sum(dim=1)
        found = TopK(
            parts[0].queries.new_full((len(cells), int(total.max())), -torch.inf),
            torch.zeros(len(cells), int(total.max()), dtype=torch.long, device=cells.device),
        )
        pairs = probed.nonzero()  # (query, rank of the cell)
        cell_of_pair = cells[probed]
        by_cell = cell_of_pair.argsort(stable=True)
        distinct, counts = cell_of_pair[by_cell].unique_consecutive(return_counts=True)
        groups = by_cell.split(counts.tolist())
        for cell, group in zip(distinct.tolist(), groups, strict=True):
            query, rank = pairs[group].unbind(dim=1)
            start, stop = self._bounds[cell], self._bounds[cell + 1]
            part = next(p for p in parts if start < p.stop)
            vectors = self._stored.between(start, stop)
            scores = torch.addmm(part.offset[query], part.queries[query], vectors.T)
            rows = self._order[start:stop]
            if draw is not None and draw.late is None:
                scores = scores + draw.gumbel(draw.step, draw.queries[query], rows)
            place = columns[query, rank][:, None] + torch.arange(stop - start, device=query.device)
            found.scores[query[:, None], place] = scores
            found.rows[query[:, None], place] = rows.expand(len(query), -1)
        best = found.scores.topk(min(k, int(total.min())), dim=1)
        return TopK(best.values, found.rows.gather(1, best.indices))

    def _judge(self, rows: Int[Tensor, "c k"], cells: Int[Tensor, "c m"]) -> None:
        """See in which of a query's cells, several times the usual number, its best were."""
        home = torch.searchsorted(self._starts, self._places[rows].long(), right=True) - 1
        rank = (home[:, :, None] == cells[:, None, :]).int().argmax(dim=2).flatten()
        self.held = (rank < self.probes).float().mean().item()
        new = torch.bincount(rank.cpu(), minlength=len(self._ranks))
        self._ranks = _MEMORY * self._ranks + new
        share = self._ranks.cumsum(0) / self._ranks.sum()
        needed = int((share < self.target).sum()) + 1
        self.probes = min(max(_FEWEST, min(needed, 2 * self.probes)), len(self._centroids))

    def _measure(self, cell: int) -> None:
        """Note where the rows of a cell are, and how far they reach in any one direction."""
        rows = self._stored.between(self._bounds[cell], self._bounds[cell + 1])
        self._centroids[cell] = rows.mean(dim=0)
        self._spreads[cell] = (rows - self._centroids[cell]).square().mean().sqrt()

    @property
    def readings(self) -> dict[str, float]:
        """Return what is worth logging."""
        own = {"probes": float(self.probes), "renewed": float(self.snapshot.renewed)}
        return self.pace.readings | own | {"overlap": self.pace.overlap * self.held}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold; the cells are made again from the buffer."""
        numbers = [self._step, self._cell, self.probes, self.held]
        state = {"ivf": torch.tensor(numbers, dtype=torch.float64)}
        state["ranks"] = self._ranks.clone()
        return state | self.pace.state_dict() | self.snapshot.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where another left off."""
        *counts, self.held = state["ivf"].tolist()
        self._step, self._cell, self.probes = map(int, counts)
        self._ranks = state["ranks"].clone()
        self.pace.load_state_dict(state)
        self.snapshot.load_state_dict(state)
        for cell in range(len(self._centroids)):
            self._measure(cell)
