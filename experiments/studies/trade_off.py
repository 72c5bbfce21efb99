"""Recall against the number of targets re-embedded: what does freshness cost each method?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.studies.declared import GridSettings, TradeOffSettings
from experiments.studies.figures import figure, line
from experiments.studies.grid import AS_IT_IS, Grid
from experiments.studies.study import Study
from experiments.studies.variants import LETTER, Variant, choose, mixed
from unstale.declare import taken_from
from unstale.errors import InputError

NAME = "trade-off"
_LINES = ("exhaustive", "dynnibal", "auto-refresh")  # methods with several points


def variants(settings: TradeOffSettings) -> dict[str, Variant]:
    """Return the points of the figure."""
    refits = {"refreshes": settings.refits}
    points: dict[str, Variant] = {
        "stale": {"strategy": "stale"},
        "to the letter, CE": LETTER,
        "corrected": {"strategy": "corrected"},
        "stochastic": {"strategy": "stochastic", **refits},
    }
    for count in settings.full_refreshes:
        own = {"strategy": "dynnibal", "full_refreshes": count, **refits}
        points[f"dynnibal, {count} full"] = own
    for share in settings.below:
        own = {"strategy": "auto-refresh", "refresh_below": share}
        points[f"auto-refresh, below {share:g}"] = own
    for count in settings.refreshes:
        label = "exhaustive" if count == settings.refreshes[-1] else f"exhaustive, {count}"
        own = {"strategy": "exhaustive", "refresh_schedule": inside(count, settings.steps)}
        points[label] = own
    encoded = {label: mixed(own, settings.hard, settings.uniform) for label, own in points.items()}
    first: dict[str, Variant] = {"in-batch": {"strategy": "in-batch"}}
    return choose({**first, **encoded, **settings.more}, settings.rows)


def inside(refreshes: int, steps: int) -> str:
    """Write a schedule that cuts a run into equal parts and refreshes between them.

    A refresh after the last step would train nothing, and cost as much as another.

    Example:
        >>> inside(2, 300)
        '99-100:1,199-200:1'
    """
    if not 1 <= refreshes < steps:
        raise InputError(f"cannot refresh {refreshes} times inside a run of {steps} steps")
    places = [round(steps * (i + 1) / (refreshes + 1)) for i in range(refreshes)]
    return ",".join(f"{place - 1}-{place}:1" for place in places)


def measure(output: Path, settings: TradeOffSettings) -> dict[str, Any]:
    """Train every point with every seed; write the table."""
    grid = Grid(NAME, variants(settings), references=("corrected",))
    return grid.measure(output, replace(taken_from(GridSettings, settings), more={}))


def _draw(results: dict[str, Any], path: Path) -> None:
    targets = results["data"]["targets"]
    rows = results["tables"][AS_IT_IS]
    with figure(path, columns=2, size=(5.4, 4.2)) as panes:
        for axes, metric in zip(panes, ("recall@1", "recall@10"), strict=True):
            for method, own in _methods(rows).items():
                xs = [_passes(row, targets) for row in own]
                line(axes, xs, own, metric, method, style="o:")
            axes.set_xscale("symlog", linthresh=0.1)
            axes.set(xlabel="targets embedded during training, in corpora")
            axes.grid(alpha=0.3)
        panes[1].legend(fontsize=8)


def _methods(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group the points of a method, those that embed least first."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        name = row["variant"].partition(",")[0]
        found.setdefault(name if name in _LINES else row["variant"], []).append(row)
    return {name: sorted(own, key=lambda row: _passes(row, 1)) for name, own in found.items()}


def _passes(row: Mapping[str, Any], targets: int) -> float:
    """Return how often a training encoded the corpus, refreshes and samples together."""
    embedded: float = row["targets_reembedded"] + row["targets_sampled"]
    return embedded / targets


STUDY = Study(NAME, TradeOffSettings, measure, _draw)
