"""What the memory adds to a score, added late: to what a scan fetched, not to every target.

To score all targets by their residuals costs as much as the scan. A residual changes who is best
among the first, but hardly lifts a target from far below: so it is added to what was fetched, and
from what it added there follows whether that was deep enough.
"""

import torch

from unstale.search.band import Beyond
from unstale.search.best import TopK
from unstale.search.exact import Draw

_DEVIATIONS = 2.0  # measured: where 2% of the queries may be in doubt, under 1% of the best is lost


def add_late(found: TopK, draw: Draw | None) -> tuple[TopK, Beyond]:
    """Rank what was fetched by all that its scores hold; say what may lie beyond it."""
    last = found.scores[:, -1:]
    if draw is None or draw.late is None:
        return found, Beyond(last, torch.zeros_like(last))
    extra = draw.late(found.rows)
    tail = extra[:, extra.shape[1] // 2 :]  # what was fetched last is most like what was not
    deviation, mean = torch.std_mean(tail, dim=1, correction=0, keepdim=True)
    scores, order = (found.scores + extra).sort(dim=1, descending=True)
    ranked = TopK(scores, found.rows.gather(1, order))
    return ranked, Beyond(last + mean, _DEVIATIONS * deviation)
