"""Did an approximate search find what an exact one would? Asked now and then, of a few queries."""

from jaxtyping import Float, Int
from torch import Tensor

from unstale.corrector.network import Corrector
from unstale.search.band import agreement
from unstale.search.best import TopK
from unstale.search.exact import Draw, Exact
from unstale.search.vectors import Vectors

_EVERY, _FIRST = 256, 64  # steps; an exact search costs some fifty scans
_QUERIES = 4


def is_audited(step: int) -> bool:
    """Tell whether to compare with exact search in this step."""
    return step % _EVERY == _FIRST


def audit(
    found: TopK,
    queries: Float[Tensor, "b d"],
    buffer: Vectors,
    corrector: Corrector,
    exclude: Int[Tensor, "b p"] | None,
    draw: Draw | None,
) -> float:
    """Return the share of the exact top k of the first queries that was found."""
    some = slice(_QUERIES)
    asked = draw and draw._replace(queries=draw.queries[some])
    known = None if exclude is None else exclude[some]
    exact = Exact(buffer, corrector).top_k(queries[some], found.rows.shape[1], known, asked)
    return agreement(found.rows[some], exact.rows)
