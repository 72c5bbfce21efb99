"""Which search to use: chosen by the size of the work, so that a resumed run chooses the same."""

import logging
from itertools import pairwise
from typing import Literal, NamedTuple

from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.search.exact import Exact
from unstale.search.ivf import IVF
from unstale.search.rolling import Rolling
from unstale.search.search import Search
from unstale.search.vectors import Vectors
from unstale.settings import Precision, SearchMode

_LOG = logging.getLogger(__name__)

_SMALL = 3e9  # operations of an exact search that are not worth saving: hundredths of a second
_SCAN = 4e10  # operations of a scan from which only some cells should be scanned
_CELLS_NEED = 100_000  # targets from which cells pay


class Choice(NamedTuple):
    """A search by name, the precision of its snapshot, and the reasons in a sentence."""

    mode: Literal["exact", "rolling", "ivf"]
    precision: Precision
    why: str


def choose(
    targets: int,
    dim: int,
    hidden: tuple[int, ...],
    queries: int,
    *,
    mode: SearchMode = "auto",
    precision: Precision = "float32",
    unit: bool = False,
) -> Choice:
    """Choose a search by N, D, H and Q, unless one is named; say which, and why.

    Example:
        >>> choose(1_000, 384, (1536,), queries=32).mode
        'exact'
        >>> choose(100_000, 384, (1536,), queries=32).mode
        'rolling'
        >>> choose(10_000_000, 384, (1536,), queries=32).mode
        'ivf'
    """
    # With fewer queries than dimensions the output layer moves to the queries, but the norm of a
    # unit output needs that layer.
    widths = [dim, *hidden, dim if unit else min(dim, queries)]
    exact = 2.0 * targets * sum(a * b for a, b in pairwise(widths))
    scan = 2.0 * targets * dim * queries
    if mode != "auto":
        choice = Choice(mode, precision, "as asked")
    elif not hidden and not unit:
        why = "a corrector without hidden layers costs a stale scan"
        choice = Choice("exact", precision, why)
    elif exact <= _SMALL:
        choice = Choice("exact", precision, f"{exact:.1e} operations a search are few")
    elif targets >= _CELLS_NEED and scan >= _SCAN:
        why = f"a scan of {targets} targets for {queries} queries is {scan:.1e} operations"
        choice = Choice("ivf", precision, why)
    else:
        why = f"exact search is {exact:.1e} operations, {exact / scan:.0f} times those of a scan"
        choice = Choice("rolling", precision, why)
    snapshot = "" if choice.mode == "exact" else f", a snapshot in {choice.precision}"
    level = logging.INFO if choice.mode == "exact" else logging.WARNING  # exact hides nothing
    _LOG.log(level, "search: %s%s: %s", choice.mode, snapshot, choice.why)
    return choice


def make_search(
    choice: Choice,
    buffer: Vectors,
    corrector: Corrector,
    *,
    memory: ResidualMemory | None = None,
    seed: int = 0,
) -> Search:
    """Build the search of h(B) that was chosen; the seed is that of what it draws."""
    if choice.mode == "exact":
        return Exact(buffer, corrector)
    if choice.mode == "ivf":
        return IVF(buffer, corrector, precision=choice.precision, seed=seed)
    return Rolling(buffer, corrector, precision=choice.precision, memory=memory, seed=seed)
