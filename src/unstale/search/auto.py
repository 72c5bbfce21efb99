"""Which search to use: chosen by the size of the work and of the memory, and logged."""

import logging
from itertools import pairwise
from typing import Literal, NamedTuple

import torch

from unstale.buffer.stored import DTYPES
from unstale.corrector.network import Corrector
from unstale.machine import free_memory
from unstale.search.exact import Exact
from unstale.search.ivf import IVF
from unstale.search.rolling import Rolling
from unstale.search.search import Search
from unstale.search.vectors import Vectors
from unstale.settings import Precision, SearchMode

_LOG = logging.getLogger(__name__)

_SMALL = 1.5e10  # operations of an exact search that are not worth saving: a fifth of a second
_SCAN = 4e10  # operations of a scan from which only some cells should be scanned
_CELLS_NEED = 100_000  # targets from which cells pay
_SHARE = 0.5  # of the free memory that a copy of the buffer may take


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
    memory: int | None,
    *,
    unit: bool = False,
) -> Choice:
    """Choose a search by N, D, H, Q and the free memory in bytes (None: no limit is known).

    Example:
        >>> choose(5_000, 384, (1536,), queries=32, memory=2**34).mode
        'exact'
        >>> choose(100_000, 384, (1536,), queries=32, memory=2**34).mode
        'rolling'
        >>> choose(10_000_000, 384, (1536,), queries=32, memory=2**33).precision
        'int8'
    """
    if not hidden and not unit:
        return Choice("exact", "float32", "a corrector without hidden layers costs a stale scan")
    # With fewer queries than dimensions the output layer moves to the queries, but the norm of a
    # unit output needs that layer.
    widths = [dim, *hidden, dim if unit else min(dim, queries)]
    network = 2 * sum(a * b for a, b in pairwise(widths))
    exact, scan = float(targets) * network, 2.0 * targets * dim * queries
    room = float("inf") if memory is None else _SHARE * memory
    fits = [p for p, dtype in DTYPES.items() if targets * dim * dtype.itemsize <= room]
    if exact <= _SMALL:
        return Choice("exact", "float32", f"{exact:.1e} operations a search are few")
    if targets >= _CELLS_NEED and scan >= _SCAN and fits:
        why = f"a scan of {targets} targets for {queries} queries is {scan:.1e} operations"
        return Choice("ivf", fits[0], f"{why}; a copy in {fits[0]} fits in memory")
    precision: Precision = fits[0] if fits else "int8"
    why = f"exact search is {exact:.1e} operations, {exact / scan:.0f} times those of a scan"
    if not fits:
        return Choice("exact", precision, f"{why}, but no copy of the buffer fits in memory")
    return Choice("rolling", precision, f"{why}; a copy in {precision} fits in memory")


def make_search(choice: Choice, buffer: Vectors, corrector: Corrector, *, seed: int = 0) -> Search:
    """Build the search of h(B) that was chosen; the seed is that of what it draws."""
    if choice.mode == "exact":
        return Exact(buffer, corrector)
    kind = Rolling if choice.mode == "rolling" else IVF
    return kind(buffer, corrector, precision=choice.precision, seed=seed)


def choose_on_device(
    mode: SearchMode,
    targets: int,
    dim: int,
    hidden: tuple[int, ...],
    queries: int,
    device: torch.device,
    reserved: int = 0,
    *,
    unit: bool = False,
) -> Choice:
    """Choose by the memory that is free on the device, without the bytes that are reserved.

    A search that the user names is kept, whatever its size.
    """
    free = free_memory(device)
    memory = None if free is None else free - reserved
    choice = choose(targets, dim, hidden, queries, memory, unit=unit)
    if mode != "auto":
        choice = Choice(mode, choice.precision, "as asked")
    return log_choice(choice)


def log_choice(choice: Choice) -> Choice:
    """Log a choice and its reasons, and return it."""
    snapshot = "" if choice.mode == "exact" else f", a snapshot in {choice.precision}"
    _LOG.warning("search: %s%s: %s", choice.mode, snapshot, choice.why)
    return choice
