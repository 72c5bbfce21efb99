"""Which recipe is best after the same time? Dev recall against seconds of training.

A step of one recipe is not a step of another: in-batch training encodes a fraction of the
candidates. So each recipe is timed first, and then trained for as many steps as fit into the same
seconds, with a learning rate that has decayed when they are over.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

from unstale.errors import InputError
from unstale.experiments.figures import figure
from unstale.experiments.grid import AS_IT_IS, Settings, Study
from unstale.files import atomic_folder
from unstale.report.table import SHOWN
from unstale.training.strategies import find_strategy

REFERENCE = "corrected"  # whose steps set the time, unless it is given
REFRESHES = (
    80  # over the steps of the reference, so that the steps between two are the same for all
)
RECIPES: dict[str, Settings] = {
    "in-batch": {"strategy": "in-batch"},
    "stale": {"strategy": "stale"},
    REFERENCE: {"strategy": "corrected"},
    "exhaustive": {"strategy": "exhaustive"},
    "corrected, 1 hard": {"strategy": "corrected", "hard_negatives": 1, "uniform_negatives": 0},
    "corrected-free": {"strategy": "corrected-free"},
    "in-batch, 256 queries": {"strategy": "in-batch", "batch_size": 256},
    "corrected-free, 256 queries": {"strategy": "corrected-free", "batch_size": 256},
}


def run(
    output: Path,
    *,
    data: str = "docstrings",
    model: str = "tiny",
    seeds: str | int = "0,1",
    steps: int = 300,
    seconds: float | None = None,
    recipes: str = "",
    rounds: int = 3,
    points: int = 10,
    split: str = "dev",
    train: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train every recipe for the same time; write results.json, table.md and figure.png.

    Args:
        output: The folder to write to.
        data: A folder in BEIR layout, or a built-in set.
        model: `tiny`, a folder, or a hub name.
        seeds: Parted by commas; every recipe is trained once for each.
        steps: Optimizer steps of `corrected`, whose time all others are given.
        seconds: That time instead, of embedding and training.
        recipes: Which to train, parted by semicolons; by default all.
        rounds: How often to time each recipe, in turn.
        points: How often to measure on the way.
        split: Where to measure.
        train: Flags of `unstale train` for all recipes; what a recipe sets wins.
        more: Further recipes by label, each with arguments of `train`.
    """
    known: dict[str, Any] = {**RECIPES, **(more or {})}
    for label, own in known.items():
        if not isinstance(own, Mapping) or "strategy" not in own:
            raise InputError(f"the recipe {label!r} must name a strategy: {own!r}")
    wanted = [label.strip() for label in recipes.split(";")] if recipes else list(known)
    if seconds is None and REFERENCE not in wanted:
        raise InputError(f"without {REFERENCE!r} among the recipes, seconds must be given")
    for label in wanted:
        if label not in known:
            raise InputError(f"there is no recipe {label!r}, but {'; '.join(known)}")
    chosen = {label: known[label] for label in wanted}
    given: dict[str, Any] = {"data": data, "model": model, "split": split}
    short = max(5, steps // 10)
    timing = Study("timing", _for_steps(chosen, dict.fromkeys(chosen, short), steps), _no_figure)
    alone = {**(train or {}), "probe_queries": 1, "probe_targets": 1}
    timed = timing(output / "timing", **given, seeds=",".join(map(str, range(rounds))), train=alone)
    fitted = _fit_steps(timed, chosen, steps, seconds)
    if not (output / "buffer").exists():  # the same start: embedded once
        with atomic_folder(output / "buffer") as folder:
            shutil.copytree(output / "timing" / "buffer", folder, dirs_exist_ok=True)
    variants = {
        label: {"eval_steps": max(1, fitted[label] // points), **own}
        for label, own in _for_steps(chosen, fitted, steps).items()
    }
    references = tuple(label for label in ("in-batch", REFERENCE) if label in chosen)
    study = Study("quality-per-second", variants, _draw, references=references)
    return study(output, **given, seeds=seeds, steps=steps, train=train)


def _for_steps(
    recipes: Mapping[str, Settings], lengths: Mapping[str, int], steps: int
) -> dict[str, Settings]:
    """Set the length of each recipe; the steps between two refreshes stay, and no meter reads."""
    return {
        label: {"refresh": round(REFRESHES * lengths[label] / steps), **own}
        | {"steps": lengths[label], "meter_steps": lengths[label]}  # but at both ends
        for label, own in recipes.items()
    }


def _fit_steps(
    timed: dict[str, Any], recipes: Mapping[str, Settings], steps: int, seconds: float | None
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
    return taken if find_strategy(strategy).buffered else 0.0


def _no_figure(results: dict[str, Any], path: Path) -> None:
    """Draw nothing: timing has a table."""


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
