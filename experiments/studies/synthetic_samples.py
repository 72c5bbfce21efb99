"""The paper's figure "Training Sample Size": how many fresh targets does a corrector need?

A mild and a strong drift; correctors of every size, trained on fractions of the targets.
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from experiments.studies.batched import residual_mlp
from experiments.studies.declared import SyntheticSamplesSettings
from experiments.studies.figures import figure
from experiments.studies.study import Study
from experiments.studies.synthetic import (
    SCALE,
    SHAPES,
    TARGETS,
    World,
    held_out_divergence,
    make_tasks,
    make_world,
    parameter_count,
    shape_generator,
    train_shape,
)

FRACTIONS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
SMALL = 0.1  # fractions up to this one use all repeats; larger ones, which vary less, half of them
PANES = {"somewhat stale": ((64, 64), 0.9), "significantly stale": ((64, 64), 1.5)}


def measure(output: Path, settings: SyntheticSamplesSettings) -> dict[str, Any]:
    """Train every shape of corrector on every fraction of the targets."""
    used_before, repeats = time.process_time(), settings.repeats
    panes = [name for name in PANES for _ in range(repeats)]
    worlds = [
        make_world(*PANES[name], seed=100 + 1000 * settings.seed + i % repeats)
        for i, name in enumerate(panes)
    ]
    points = []
    jobs = [(shape, fraction) for shape in SHAPES for fraction in FRACTIONS]
    for shape, fraction in tqdm(jobs, desc="correctors"):
        used = [
            i for i in range(len(worlds)) if fraction <= SMALL or i % repeats < (repeats + 1) // 2
        ]
        some, names = [worlds[i] for i in used], [panes[i] for i in used]
        found = _corrected(some, shape, fraction, settings)
        points += [
            {"pane": pane, "fraction": fraction, "targets": round(fraction * TARGETS)}
            | {"hidden": list(shape), "parameters": parameter_count(shape)}
            | {"kl_stale": world.staleness, "kl_corrected": kl, "kl_training": trained}
            for pane, world, (kl, trained) in zip(names, some, found, strict=True)
        ]
    return {
        "settings": asdict(settings) | {"scale": SCALE},
        "points": points,
        "curves": _curves(points),
        "summary": _summary(points),
        "cpu_seconds": time.process_time() - used_before,
    }


def _corrected(
    worlds: list[World], shape: tuple[int, ...], fraction: float, settings: SyntheticSamplesSettings
) -> list[tuple[float, float]]:
    """Return KL(P || P_h) over all targets on unseen queries, and over what it was trained on."""
    generator = shape_generator(shape, settings.seed)
    some = round(fraction * TARGETS)
    rows = [torch.randperm(TARGETS, generator=generator)[:some] for _ in worlds]
    tasks = make_tasks(worlds, rows)
    best = train_shape(tasks, shape, settings.epochs, generator)
    with torch.no_grad():
        trained = tasks.divergence(residual_mlp(best, tasks.stale)).tolist()
    return list(zip(held_out_divergence(worlds, best), trained, strict=True))


def _curves(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average the repeats: one line of the figure for each pane and fraction."""
    curves = []
    for pane in PANES:
        for fraction in FRACTIONS:
            here = [p for p in points if p["pane"] == pane and p["fraction"] == fraction]
            counts = sorted({p["parameters"] for p in here})
            by_count = [[p["kl_corrected"] for p in here if p["parameters"] == c] for c in counts]
            stale = [p["kl_stale"] for p in here]
            curves.append(
                {"pane": pane, "fraction": fraction, "parameters": counts}
                | {"kl_corrected": [sum(k) / len(k) for k in by_count]}
                | {"kl_stale": sum(stale) / len(stale)}
            )
    return curves


def _summary(points: list[dict[str, Any]]) -> dict[str, float]:
    """Put the claims in numbers, of the strong drift: 10% against all, and overfitting."""
    strong = [p for p in points if p["pane"] == list(PANES)[-1]]
    most = max(p["parameters"] for p in strong)

    def mean(key: str, fraction: float) -> float:
        found = [p[key] for p in strong if p["fraction"] == fraction and p["parameters"] == most]
        return sum(found) / len(found)

    return {
        "kl_stale": strong[0]["kl_stale"],
        "largest_h_at_10%": mean("kl_corrected", 0.1),
        "largest_h_at_100%": mean("kl_corrected", 1.0),
        "largest_h_at_0.5%": mean("kl_corrected", 0.005),
        "largest_h_at_0.5%_on_what_it_trained_on": mean("kl_training", 0.005),
    }


def _draw(results: dict[str, Any], path: Path) -> None:
    curves = results["curves"]
    with figure(path, columns=len(PANES), size=(4.6, 4.2)) as panes:
        for axes, name in zip(panes, PANES, strict=True):
            here = [c for c in curves if c["pane"] == name]
            for i, curve in enumerate(here):
                axes.plot(
                    curve["parameters"],
                    curve["kl_corrected"],
                    "o-",
                    markersize=3,
                    color=(0.1, 0.2 + 0.1 * i, 0.95 - 0.13 * i),
                    label=f"{100 * curve['fraction']:g}%",
                )
            axes.axhline(here[0]["kl_stale"], color="tab:red", linestyle="--", label="stale")
            title = f"{name}: KL(P ‖ P_stale) = {here[0]['kl_stale']:.2f}"
            axes.set(xscale="log", yscale="log", title=title, xlabel="parameters of h")
        panes[0].set_ylabel("KL(P ‖ P_h)")
        panes[-1].legend(title="targets used", fontsize=8)


STUDY = Study("synthetic-samples", SyntheticSamplesSettings, measure, _draw)
