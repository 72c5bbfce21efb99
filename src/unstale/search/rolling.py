"""Rolling search: scan a whole snapshot, and renew it a piece at a time."""

from typing import final

import torch

from unstale.corrector.dots import dots
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.search.approximate import Approximate, Scan
from unstale.search.best import TopK, merge, nothing
from unstale.search.rescore import Rescored
from unstale.search.snapshot import Snapshot
from unstale.search.vectors import Vectors, chunk_rows, on_device
from unstale.settings import Precision


@final
class Rolling(Approximate):
    """Scan all of the snapshot of h(B); see `Approximate` for how it stays nearly exact.

    Args:
        overlap: The share of the exact top k to hold, on average.
        precision: The precision of the snapshot.
        memory: The residuals that searches add. The snapshot then holds them; whoever writes them
            says so (`remember`).
        seed: The seed of the targets that tell where a query's best targets lie.
    """

    def __init__(
        self,
        buffer: Vectors,
        corrector: Corrector,
        *,
        overlap: float = 0.99,
        precision: Precision = "float32",
        memory: ResidualMemory | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(Snapshot(buffer, corrector, precision, memory), overlap, seed)

    def _renew(self) -> None:
        if not self.snapshot.complete():
            self.snapshot.renew(self.control.piece)

    def _scan(self, scan: Scan) -> TopK:
        best = nothing(scan.parts[0].queries)
        size = chunk_rows(best.rows.device, sum(scan.parts[0].queries.shape))
        for part in scan.parts:
            chunks = part.vectors.chunks(size, part.start, part.stop)
            for start, vectors in on_device(chunks, part.queries.device):
                inverse = part.inverses(start, start + len(vectors))
                scores = dots(part.queries, vectors, torch.outer(inverse, part.offset[:, 0]))
                if scan.added is not None:
                    scores = scores + scan.added.scores(slice(start, start + len(vectors)))
                best = merge(best, scores, start, scan.fetch)
        return best

    def _learn(self, scan: Scan, rescored: Rescored, audited: float | None) -> None:
        if self.snapshot.complete() and self.control.due(len(self.buffer)):
            self.snapshot.open_pass()
        if audited is not None:
            self.control.adjust(audited)
