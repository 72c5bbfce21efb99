"""How much say has each model? Learned from held-out targets, and from judgements if there are any.

The new model's score of a target that it has not embedded is predicted from the old score and from
that of the mapped new query, by least squares within queries, over held-out targets that lie near a
query; the adapter then mends it where the query lies. The final score is a mean of the old score
and the new one, known or predicted, in equal parts unless judged queries say otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.corrector.closed_form import least_squares
from unstale.data.dataset import Qrels
from unstale.evaluation.metrics import measure
from unstale.migration.adapter import QueryAdapter
from unstale.migration.law import NEAR
from unstale.migration.stale import StaleVectors
from unstale.search.best import TopK, merge, nothing

WEIGHTS = tuple(round(0.1 * i, 1) for i in range(11))
EQUAL = 0.5  # the old model's part where no judgement says otherwise
KEPT = 4096  # embedded targets that an adapter holds at most: some ten megabytes
LEAST_JUDGED = 50  # queries, to choose a weight by


@final
class BothQueries(NamedTuple):
    """The same queries as the old model and as the new model embed them."""

    old: Float[Tensor, "q d"]
    new: Float[Tensor, "q e"]

    def take(self, some: Int[ndarray, " m"]) -> "BothQueries":
        """Keep some of the queries."""
        rows = torch.from_numpy(some)
        return BothQueries(self.old[rows], self.new[rows])


def fit_adapter(
    stale: Float[Tensor, "n d"],
    fresh: Float[Tensor, "n e"],
    held_out: Bool[ndarray, " n"],
    queries: BothQueries,
    about: Mapping[str, Any],
    *,
    asked_for: Bool[ndarray, " n"] | None = None,
    judging: bool = False,
) -> QueryAdapter:
    """Fit the map to the targets that are not held out, and the parts of the score to the others.

    When the parts are known, all targets teach, unless held-out ones are to judge the adapter. No
    judgement is used: the weight is `EQUAL`. Of many targets the adapter holds up to a half that
    queries asked for, and others at random.
    """
    first = np.zeros(len(stale), np.bool_) if asked_for is None else asked_for
    held = torch.from_numpy(held_out)
    matrix = least_squares(stale[~held], fresh[~held]).weight
    mapped = queries.new @ matrix.T @ stale[held].T
    then, now = queries.old @ stale[held].T, queries.new @ fresh[held].T
    old_part, new_part = _parts(then, mapped, now)
    scale = float(then.std(dim=1).mean() / now.std(dim=1).mean().clamp(min=1e-9))
    if judging:
        stale, fresh, first = stale[~held], fresh[~held], first[~held_out]
    else:
        matrix = least_squares(stale, fresh).weight
    order = torch.randperm(len(stale), generator=torch.Generator().manual_seed(0))
    wanted = torch.from_numpy(first)[order]
    wanted &= wanted.cumsum(dim=0) <= KEPT // 2
    kept = torch.cat([order[wanted], order[~wanted]])[:KEPT]
    return QueryAdapter(
        EQUAL, matrix.numpy(), old_part, new_part, scale, stale[kept].numpy(), fresh[kept].numpy(),
        dict(about),
    )  # fmt: skip


def _parts(
    then: Float[Tensor, "q h"], mapped: Float[Tensor, "q h"], now: Float[Tensor, "q h"]
) -> tuple[float, float]:
    """Regress the new score on the old and on the mapped one, near each query, within it."""
    far = (then - then.mean(dim=1, keepdim=True)) / then.std(dim=1, keepdim=True).clamp(min=1e-9)
    near = (far > NEAR).double()
    if float(near.sum()) < 2 * len(then):
        near = torch.ones_like(near)
    count = near.sum(dim=1, keepdim=True).clamp(min=1)
    columns = [
        ((x.double() - (x * near).sum(dim=1, keepdim=True) / count) * near).flatten()
        for x in (then, mapped, now)
    ]
    sides = torch.stack(columns[:2], dim=1)
    found = torch.linalg.lstsq(sides, columns[2][:, None], driver="gelsd").solution[:, 0]
    # Scores that fall as another rises would come of chance: neither model is worse than none.
    old_part, new_part = (max(0.0, float(part)) for part in found)
    return old_part, new_part


@final
class Judged(NamedTuple):
    """Queries whose relevant targets are known."""

    queries: BothQueries
    qrels: Qrels
    rows: Int[ndarray, " q"]  # of the queries, as the qrels name them

    def take(self, some: Int[ndarray, " m"]) -> "Judged":
        """Keep some of the queries."""
        return Judged(self.queries.take(some), self.qrels, self.rows[some])


def weigh(adapter: QueryAdapter, source: StaleVectors, judged: Judged) -> Float[ndarray, "w q"]:
    """Return recall@10 of every judged query at every weight, searched in the whole old index."""
    old, new = (side.numpy() for side in judged.queries)
    asked = torch.from_numpy(
        np.concatenate([replace(adapter, weight=w).mixed(old, new) for w in WEIGHTS])
    )
    best = nothing(asked)
    for start, vectors in source.chunks():
        best = merge(best, asked @ torch.from_numpy(vectors).T, start, 10)
    each = zip(best.scores.chunk(len(WEIGHTS)), best.rows.chunk(len(WEIGHTS)), strict=True)
    found = [measure(judged.qrels, judged.rows, TopK(*pair)) for pair in each]
    return np.stack([values["recall@10"] for values in found])


def choose_weight(gains: Float[ndarray, "w q"]) -> float:
    """Return the best weight if the judged queries are sure that it betters `EQUAL`, else that.

    The curve over weights is flat near its top, and the best of eleven noisy means is noise: chosen
    freely, the weight cost more than it gained. So a weight must win by more than two standard
    errors of the difference.
    """
    more = gains - gains[WEIGHTS.index(EQUAL)]
    mean = more.mean(axis=1)
    error = more.std(axis=1, ddof=1) / more.shape[1] ** 0.5
    sure = np.where(mean > 2 * error, mean, 0.0)
    return WEIGHTS[int(sure.argmax())] if sure.max() > 0 else EQUAL


def folds(count: int, seed: int) -> Sequence[tuple[Int[ndarray, " a"], Int[ndarray, " b"]]]:
    """Part judged queries in two halves, each of which chooses for the other."""
    one, other = np.array_split(np.random.default_rng(seed).permutation(count), 2)
    return [(one, other), (other, one)]
