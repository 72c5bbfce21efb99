"""Which targets are in a step's softmax? Chosen for the queries of all processes together."""

import time
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional

from unstale.distributed import exchange, gather, share
from unstale.miners.miner import Queries
from unstale.miners.negatives import Negatives
from unstale.training.encode import full_precision
from unstale.training.record import Counters


@final
class Candidates(NamedTuple):
    """The candidates S of a batch, and which of them are in each query's softmax.

    Where there are several processes, the candidates are those of all of them and b counts the
    queries of this one.
    """

    rows: Int[Tensor, " c"]  # distinct, to be encoded
    label: Int[Tensor, " b"]  # the place of each query's positive among them
    absent: Bool[Tensor, "b c"]  # not in a query's softmax, such as its other positives
    within: Bool[Tensor, "b c"] | None  # a query's own candidates; None if all are shared
    labels: Bool[Tensor, " c"]  # which of them are the positive of some query


@torch.no_grad()
def choose_candidates(
    negatives: Negatives,
    queries: Queries,
    label: Int[Tensor, " b"],
    counters: Counters,
    *,
    shared: bool,
) -> Candidates:
    """Mine for a batch, and include each query's supervised label."""
    every_label = gather(label)[:, None]  # (B, 1), over all processes
    everyone = gather_queries(queries)
    began = time.perf_counter()
    with full_precision(queries.vectors):
        mined = negatives.mine(everyone)
    counters.mining_seconds += time.perf_counter() - began

    own, not_negatives = share(len(everyone.rows)), queries.positives
    if mined.dropped is not None:
        counters.count_dropped(mined.dropped)
        not_negatives = torch.cat([not_negatives, mined.dropped.kept_away[own]], dim=1)
    encoded = torch.cat([mined.hard, mined.uniform, mined.given], dim=1)
    encoded = torch.where(encoded < 0, every_label, encoded)  # none: the label is there anyway
    rows, place = torch.cat([every_label, encoded], dim=1).unique(return_inverse=True)
    place = place[own]  # (b, 1 + m)
    within = None if shared else membership(place, len(rows))
    absent = _among(rows, not_negatives)
    if within is not None:
        absent = absent | ~within
    absent = absent.scatter_(1, place[:, :1], False)
    return Candidates(rows, place[:, 0], absent, within, torch.isin(rows, every_label))


def gather_queries(queries: Queries) -> Queries:
    """Gather the queries of all processes; each searches its own rows for all of them."""
    width = max(exchange(queries.positives.shape[1]))
    missing = width - queries.positives.shape[1]
    return queries._replace(
        vectors=gather(queries.vectors),
        rows=gather(queries.rows),
        positives=gather(functional.pad(queries.positives, (0, missing), value=-1)),
    )


def membership(place: Int[Tensor, "b m"], candidates: int) -> Bool[Tensor, "b c"]:
    """Mark which candidates each query chose itself."""
    mask = torch.zeros(len(place), candidates, dtype=torch.bool, device=place.device)
    return mask.scatter_(1, place, True)


def _among(rows: Int[Tensor, " c"], of: Int[Tensor, "b p"]) -> Bool[Tensor, "b c"]:
    """Mark which of the rows, sorted, are among some of each query."""
    place = torch.searchsorted(rows, of).clamp(max=len(rows) - 1)
    place = torch.where(rows[place] == of, place, len(rows))  # what is no row gets a column beyond
    return membership(place, len(rows) + 1)[:, :-1]
