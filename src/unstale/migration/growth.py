"""How does quality grow with use, if what queries fetch is embedded after they are answered?

The user's own queries are replayed: some come first, and what they fetch from the old index is
embedded; the judged ones come next. Which of the targets that these fetch are embedded by then is
counted, not estimated. Their recall is put between that of the adapter alone, where none is, and
that of re-embedding a part, where all are, in proportion: that is an assumption.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from unstale.migration.adapter import QueryAdapter
from unstale.migration.fusion import EQUAL, BothQueries
from unstale.migration.stale import StaleVectors
from unstale.migration.validate import as_json, mean_interval
from unstale.migration.verdict import Rates, aligned, duration
from unstale.migration.ways import PART, QUERY_SIDE, READ
from unstale.search.best import merge, nothing

SERVED = (0, 10, 100, 1000)  # queries that came before


@final
class Growth(NamedTuple):
    """What was embedded when some queries had been served, and how much of the next one's that is.

    Args:
        served: The queries that came before.
        embedded: The targets that they had embedded, beyond those that were.
        share: Of the targets that each judged query fetches, those that were embedded by then.
    """

    served: int
    embedded: int
    share: Float[ndarray, " q"]


def replay(
    source: StaleVectors,
    adapter: QueryAdapter,
    judged: BothQueries,
    earlier: BothQueries,
    known: Int[ndarray, " n"],
) -> list[Growth]:
    """Let queries come before the judged ones.

    Args:
        source: The old index.
        adapter: Its weight is not used: the judged queries may have chosen it.
        judged: The queries whose answers are judged.
        earlier: Other queries, in the order in which they come.
        known: The rows that are embedded already.
    """
    equal = replace(adapter, weight=EQUAL)
    sides = [equal.mixed(side.old.numpy(), side.new.numpy()) for side in (judged, earlier)]
    asked = torch.from_numpy(np.concatenate(sides))
    best = nothing(asked)
    for start, vectors in source.chunks():
        best = merge(best, asked @ torch.from_numpy(vectors).T, start, READ)
    fetched = best.rows.numpy()
    now, before = fetched[: len(judged.old)], fetched[len(judged.old) :]
    have: Bool[ndarray, " rows"] = np.zeros(source.rows, np.bool_)
    have[known] = True
    steps = sorted({min(served, len(before)) for served in SERVED})
    grown = []
    for first, served in zip([0, *steps], steps, strict=False):
        have[before[first:served]] = True
        grown.append(Growth(served, int(have.sum()) - len(known), have[now].mean(axis=1)))
    return grown


def growth(
    grown: Sequence[Growth], values: Mapping[str, Float[ndarray, " q"]], rates: Rates
) -> list[dict[str, Any]]:
    """Describe the growth as results.json has it, with what it costs."""
    start, end = values[QUERY_SIDE], values[PART]
    return [
        {
            "served": step.served,
            "more_targets": step.embedded,
            "embedded_share": float(step.share.mean()),
            "seconds": step.embedded * rates.each,
            "money": rates.money(step.embedded),
            **as_json({"recall@10": mean_interval(start + step.share * (end - start))}),
        }
        for step in grown
    ]


def growth_table(points: Sequence[Mapping[str, Any]]) -> str:
    """Write the growth of results.json as text."""
    lines = [["after queries", "embeds", "time", "money", "known", "recall@10"]]
    for point in points:
        money = "" if point["money"] is None else f"{point['money']:.2f}"
        shown = [f"{point['served']:,}", f"{point['more_targets']:,}", duration(point["seconds"])]
        known = f"{point['embedded_share']:.0%}"
        lines.append([*shown, money, known, f"{point['recall@10']['value']:.3f}"])
    about = "known: share of fetched targets embedded before (counted). recall@10: interpolated."
    return f"{PART}, if what your queries fetch is embedded after each:\n{aligned(lines)}\n{about}"
