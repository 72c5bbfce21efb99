"""Which recipe is best after the same time? Dev recall against seconds of training.

A step of one recipe is not a step of another: in-batch training encodes a fraction of the
candidates. So each recipe is timed first, and then trained for as many steps as fit into the same
seconds, with a learning rate that has decayed when they are over.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from experiments.studies.declared import GridSettings, QualityPerSecondSettings
from experiments.studies.figures import figure
from experiments.studies.grid import AS_IT_IS, Grid
from experiments.studies.study import Study
from experiments.studies.variants import Variant, choose
from unstale.declare import taken_from
from unstale.errors import InputError
from unstale.files import atomic_folder
from unstale.miners import find_strategy
from unstale.report.columns import SHOWN

NAME = "quality-per-second"
REFERENCE = "corrected"  # whose steps set the time, unless it is given
# Over the steps of the reference, so that the steps between two are the same for all.
REFRESHES = 80
RECIPES: dict[str, Variant] = {
    "in-batch": {"strategy": "in-batch"},
    "stale": {"strategy": "stale"},
    REFERENCE: {"strategy": "corrected"},
    "exhaustive": {"strategy": "exhaustive"},
    "corrected, 1 hard": {"strategy": "corrected", "hard_negatives": 1, "uniform_negatives": 0},
    "staged": {"strategy": "staged"},
    "in-batch, 256 queries": {"strategy": "in-batch", "batch_size": 256},
    "staged, 256 queries": {"strategy": "staged", "batch_size": 256},
}


def measure(output: Path, settings: QualityPerSecondSettings) -> dict[str, Any]:
    """Time every recipe; then train each for the same time."""
    chosen, steps = _choose(settings), settings.steps
    short = max(5, steps // 10)
    timing = Grid("timing", _for_steps(chosen, dict.fromkeys(chosen, short), steps)).study()
    same = replace(taken_from(GridSettings, settings), more={})  # they are among the chosen
    alone = {**settings.train, "probe_queries": 1, "probe_targets": 1}
    seeds = ",".join(map(str, range(settings.rounds)))
    rounds = replace(same, seeds=seeds, train=alone, cells_of="")  # times are of this machine now
    timed = timing.run(output / "timing", rounds)
    fitted = _fit_steps(timed, chosen, steps, settings.seconds)
    if not (output / "buffer").exists():  # the same start: embedded once
        with atomic_folder(output / "buffer") as folder:
            shutil.copytree(output / "timing" / "buffer", folder, dirs_exist_ok=True)
    variants = {
        label: {"eval_steps": max(1, fitted[label] // settings.points), **own}
        for label, own in _for_steps(chosen, fitted, steps).items()
    }
    references = tuple(label for label in ("in-batch", REFERENCE) if label in chosen)
    return Grid(NAME, variants, references=references).measure(output, same)


def _choose(settings: QualityPerSecondSettings) -> dict[str, Variant]:
    """Return the recipes that were asked for."""
    known: dict[str, Variant] = {**RECIPES, **settings.more}
    for label, own in known.items():
        if "strategy" not in own:
            raise InputError(f"the recipe {label!r} must name a strategy: {own!r}")
    chosen = choose(known, settings.recipes)
    if settings.seconds is None and REFERENCE not in chosen:
        raise InputError(f"without {REFERENCE!r} among the recipes, seconds must be given")
    return chosen


def _for_steps(
    recipes: Mapping[str, Variant], lengths: Mapping[str, int], steps: int
) -> dict[str, Variant]:
    """Set the length of each recipe; the steps between two refreshes stay, and no meter reads."""
    return {
        label: {"refreshes": round(REFRESHES * lengths[label] / steps), **own}
        | {"steps": lengths[label], "meter_steps": lengths[label]}  # but at both ends
        for label, own in recipes.items()
    }


def _fit_steps(
    timed: dict[str, Any], recipes: Mapping[str, Variant], steps: int, seconds: float | None
) -> dict[str, int]:
    """Compute how many steps of each recipe fit into the time, the embedding included."""
    pace: dict[str, float] = {}
    before: dict[str, float] = {}
    for label, own in recipes.items():
        cells = [c for c in timed["cells"] if c["variant"] == label]
        pace[label] = median((c["steps"] - 1) / _going(c["seconds"]) for c in cells)
        first = median(c["seconds"]["starting"] for c in cells) - 1 / pace[label]
        before[label] = _embedding(timed, own["strategy"]) + first
    whole = seconds if seconds is not None else before[REFERENCE] + steps / pace[REFERENCE]
    fitted = {label: round((whole - before[label]) * pace[label]) for label in recipes}
    for label, count in fitted.items():
        if count < 1:
            raise InputError(f"not one step of {label!r} fits into {whole:.0f} s")
    return fitted


def _going(seconds: Mapping[str, float]) -> float:
    """Return the seconds of a training but for its first step and the meter."""
    return seconds["training"] - seconds["starting"] - seconds["metering"]


def _embedding(results: dict[str, Any], strategy: str) -> float:
    """Return the seconds of embedding that a strategy must wait for."""
    taken = results["embedding_seconds"][AS_IT_IS] or 0.0
    return taken if find_strategy(strategy).caches else 0.0


def _draw(results: dict[str, Any], path: Path) -> None:
    with figure(path, columns=2, size=(5.6, 4.2)) as panes:
        for axes, metric in zip(panes, ("recall@1", "recall@10"), strict=True):
            for row in results["tables"][AS_IT_IS]:
                own = [c for c in results["cells"] if c["variant"] == row["variant"]]
                late = _embedding(results, own[0]["strategy"])
                start = {"seconds": 0.0, metric: own[0]["initial_metrics"][metric]}
                curves = zip(*(cell["curve"] for cell in own), strict=True)
                moments = [[start], *curves]
                axes.plot(
                    [late + fmean(p["seconds"] for p in moment) for moment in moments],
                    [100 * fmean(p[metric] for p in moment) for moment in moments],
                    marker=".",
                    label=row["variant"],
                )
            axes.set(xlabel="seconds of embedding and training", ylabel=f"{SHOWN[metric]}, %")
            axes.grid(alpha=0.3)
        panes[1].legend(fontsize=8)


STUDY = Study(NAME, QualityPerSecondSettings, measure, _draw)
