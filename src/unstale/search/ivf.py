"""Corrected IVF, for millions of targets: only the cells that may hold the best are scanned.

Cells are made of stale vectors, once, at the first search. A cell is judged by the mean of its
snapshot rows, scored as rows are, with h linearised into the query; so cells follow h as it moves
targets. Of two cells with equal means the wider can hold better rows, so spread counts for a cell.
"""

from bisect import bisect_left
from functools import partial
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.corrector.network import Corrector
from unstale.search.approximate import Approximate, Scan
from unstale.search.best import TopK
from unstale.search.partition import import_faiss, partition
from unstale.search.rescore import Rescored
from unstale.search.snapshot import Part, Snapshot
from unstale.search.vectors import Vectors
from unstale.settings import Precision

_MEMORY = 0.95  # share of the past in what is known of where the best were
_REACH = 2.5  # deviations from the mean of a cell at which its best row is expected
_PROBES = 32  # cells that a query searches at first
_FEWEST = 8  # cells that a query searches: fewer would blind the check
_WIDER = 4  # times the cells that a checked query searches


@final
class IVF(Approximate):
    """Scan the best cells of the snapshot of h(B); see `Approximate` for what follows the scan.

    The time of a search grows with the square root of N, as long as there are that many cells.
    Every few steps some queries search several times the cells, and where they find the best sets
    how many cells are searched. A sample drawn with Gumbel noise is one of the targets in those.

    Args:
        buffer: The stale embeddings; rows to rescore are read from it, so it may be on disk.
        overlap: The share of the exact top k to hold, on average.
        precision: The precision of the snapshot, a copy of the buffer in the order of the cells.
        seed: The seed of the cells, and of the targets that tell where a query's best lie.
    """

    def __init__(
        self,
        buffer: Vectors,
        corrector: Corrector,
        *,
        overlap: float = 0.97,
        precision: Precision = "float32",
        seed: int = 0,
    ) -> None:
        import_faiss()  # now, rather than at the first step
        super().__init__(Snapshot(buffer, corrector, precision), (1 + overlap) / 2, seed)
        self.target = overlap
        self.probes = _PROBES
        self.held = 1.0  # the share of the best that was in the probed cells, at the last check
        self._partition = partial(partition, buffer, seed)
        self._bounds: list[int] = []  # where each cell begins, and the end of the last

    def _prepare(self) -> None:
        """Make the cells at the first search, unless a checkpoint brought them."""
        if not self._bounds:
            order, starts = self._partition()
            self._lay_out(order, starts)
            self.snapshot.fill(self._order)
            self._measure(range(len(self._sizes)))

    def _lay_out(self, order: Int[Tensor, " n"], starts: Int[Tensor, " cells_and_end"]) -> None:
        """Take over cells: the rows of one after the other, and where each begins."""
        device = self.buffer.device
        self._order, self._sizes = order.to(device), starts.diff().to(device)
        self._bounds = starts.tolist()
        count = len(self._sizes)
        self._home = torch.empty(len(order), dtype=torch.int32, device=device)  # cell of each row
        cell = torch.arange(count, dtype=torch.int32, device=device)
        self._home[self._order] = cell.repeat_interleave(self._sizes)
        self._centroids = torch.empty(count, self.buffer.dim, device=device)
        self._spreads = torch.empty(count, device=device)
        self._inverses = torch.ones(count, device=device)  # what a cell's offset is multiplied by
        self._ranks = torch.zeros(count, dtype=torch.float64)  # where the best were, by rank
        self._cell = count  # the next of the pass

    def _renew(self) -> None:
        """Renew the next cells, whole ones, if a pass is due or under way."""
        if self.snapshot.complete():
            if not self.control.due(len(self.buffer)):
                return
            self.snapshot.open_pass()
            self._cell = 0
        stop = min(self.snapshot.position + self.control.piece, len(self.buffer))
        while self.snapshot.position < stop:
            self.snapshot.renew(self._bounds[self._cell + 1] - self._bounds[self._cell])
            self._measure(range(self._cell, self._cell + 1))
            self._cell += 1

    def _measure(self, cells: range) -> None:
        """Note where the rows of cells are, and how far they reach in any one direction."""
        for cell in cells:
            rows = self.snapshot.stored.between(*self._bounds[cell : cell + 2])
            self._centroids[cell] = rows.mean(dim=0)
            self._spreads[cell] = (rows - self._centroids[cell]).square().mean().sqrt()
            self._inverses[cell] = self.snapshot.inverses(*self._bounds[cell : cell + 2]).mean()

    def _choose(self, scan: Scan) -> tuple[Int[Tensor, "b m"], Bool[Tensor, "b m"]]:
        """Rank the cells of each query, and tell which of them to scan: enough for all queries."""
        scores = torch.cat([self._score_cells(part) for part in scan.parts], dim=1)
        count = min(_WIDER * self.probes, len(self._sizes))
        while True:
            cells = scores.topk(count, dim=1).indices
            before = self._sizes[cells].cumsum(dim=1) - self._sizes[cells]
            few = before < scan.needed
            probed = (torch.arange(count, device=cells.device) < self.probes) | few
            probed[scan.checked] = True
            if count == len(self._sizes) or not few[:, -1].any():
                return cells, probed
            count = min(2 * count, len(self._sizes))

    def _score_cells(self, part: Part) -> Float[Tensor, "b cells"]:
        """Score the cells of a part, by what their best rows may score."""
        # The pass goes cell by cell, so that no cell is cut.
        first, last = (bisect_left(self._bounds, end) for end in (part.start, part.stop))
        reach = _REACH * part.queries.norm(dim=1, keepdim=True) * self._spreads[first:last]
        offset = part.offset * self._inverses[first:last]
        return torch.addmm(reach + offset, part.queries, self._centroids[first:last].T)

    def _scan(self, scan: Scan) -> TopK:
        """Score the rows of each query's cells; each cell is read once for all its queries."""
        cells, probed = self._choose(scan)
        sizes = self._sizes[cells] * probed
        columns = sizes.cumsum(dim=1) - sizes  # where each query's cells begin among its scores
        total = sizes.sum(dim=1)
        shape = len(cells), int(total.max())
        found = TopK(
            scan.parts[0].queries.new_full(shape, -torch.inf),
            torch.zeros(shape, dtype=torch.long, device=cells.device),
        )
        pairs = probed.nonzero()  # (query, rank of the cell)
        cell_of_pair = cells[probed]
        by_cell = cell_of_pair.argsort(stable=True)
        distinct, counts = cell_of_pair[by_cell].unique_consecutive(return_counts=True)
        groups = by_cell.split(counts.tolist())
        for cell, group in zip(distinct.tolist(), groups, strict=True):
            query, rank = pairs[group].unbind(dim=1)
            start, stop = self._bounds[cell : cell + 2]
            part = next(p for p in scan.parts if start < p.stop)
            vectors, rows = self.snapshot.stored.between(start, stop), self._order[start:stop]
            offset = part.offset[query] * part.inverses(start, stop)
            scores = torch.addmm(offset, part.queries[query], vectors.T)
            if scan.added is not None:
                scores = scores + scan.added.of(query).scores(rows)
            place = columns[query, rank][:, None] + torch.arange(stop - start, device=query.device)
            found.scores[query[:, None], place] = scores
            found.rows[query[:, None], place] = rows.expand(len(query), -1)
        best = found.scores.topk(min(scan.fetch, int(total.min())), dim=1)
        return TopK(best.values, found.rows.gather(1, best.indices))

    def _learn(self, scan: Scan, rescored: Rescored, audited: float | None) -> None:
        """See in which of a query's cells, several times the usual number, its best were."""
        if rescored.overlap is None:
            return
        cells, home = self._choose(scan)[0][scan.checked], self._home[rescored.best.rows]
        rank = (home[scan.checked][:, :, None] == cells[:, None, :]).int().argmax(dim=2).flatten()
        self.held = (rank < self.probes).float().mean().item()
        new = torch.bincount(rank.cpu(), minlength=len(self._ranks))
        self._ranks = _MEMORY * self._ranks + new
        share = self._ranks.cumsum(0) / self._ranks.sum()
        needed = int((share < self.target).sum()) + 1
        self.probes = min(max(_FEWEST, min(needed, 2 * self.probes)), len(self._sizes))

    @property
    def readings(self) -> dict[str, float]:
        """Return what is known of the search, and how many cells it probes."""
        held = {"overlap": self.control.overlap * self.held}
        return super().readings | held | {"probes": float(self.probes)}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold, and the cells: another machine may make others."""
        if not self._bounds:
            return super().state_dict()
        numbers = torch.tensor([self._cell, self.probes, self.held], dtype=torch.float64)
        own = {"ivf": numbers, "ranks": self._ranks.clone(), "order": self._order}
        return super().state_dict() | own | {"starts": torch.tensor(self._bounds)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Resume from the state of a checkpoint."""
        super().load_state_dict(state)
        if state.keys() <= {"step", "control", "position"}:  # written before the first search
            return
        self._lay_out(state["order"].clone(), state["starts"])
        if "stored" in state:
            self.snapshot.order = self._order
        else:
            self.snapshot.fill(self._order)
        *counts, self.held = state["ivf"].tolist()
        self._cell, self.probes = map(int, counts)
        self._ranks = state["ranks"].clone()
        self._measure(range(len(self._sizes)))
