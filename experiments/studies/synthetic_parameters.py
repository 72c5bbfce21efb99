"""The paper's figure "Parameter Count": what does a larger corrector buy, at what drift?

Many drifts, each corrected by every shape of h: KL(P || P_stale) against KL(P || P_h).
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from experiments.studies.declared import GAINS, SyntheticParametersSettings
from experiments.studies.figures import figure
from experiments.studies.study import Study
from experiments.studies.synthetic import (
    SCALE,
    SHAPES,
    TARGETS,
    held_out_divergence,
    make_tasks,
    make_world,
    parameter_count,
    shape_generator,
    train_shape,
)
from unstale.errors import InputError


def measure(output: Path, settings: SyntheticParametersSettings) -> dict[str, Any]:
    """Train every shape of corrector on every drift."""
    used = round(settings.fraction * TARGETS)
    if used < 1:
        raise InputError(f"--set.fraction {settings.fraction} of {TARGETS} targets leaves none")
    used_before = time.process_time()
    kinds = [(drift, gain) for drift in SHAPES for gain in GAINS[: settings.gains]]
    worlds = [make_world(*kind, seed=1000 * settings.seed + i) for i, kind in enumerate(kinds)]
    rows = torch.randperm(TARGETS, generator=torch.Generator().manual_seed(settings.seed))
    tasks = make_tasks(worlds, [rows[:used]] * len(worlds))
    staleness = [w.staleness for w in worlds]
    points = []
    for shape in tqdm(SHAPES, desc="shapes of h"):
        generator = shape_generator(shape, settings.seed)
        found = held_out_divergence(worlds, train_shape(tasks, shape, settings.epochs, generator))
        points += [
            {"drift": list(kind[0]), "gain": kind[1], "hidden": list(shape)}
            | {"parameters": parameter_count(shape), "kl_stale": s, "kl_corrected": kl}
            for kind, s, kl in zip(kinds, staleness, found, strict=True)
        ]
    return {
        "settings": asdict(settings) | {"scale": SCALE},
        "points": points,
        "summary": _summary(points),
        "cpu_seconds": time.process_time() - used_before,
    }


def _summary(points: list[dict[str, Any]]) -> dict[str, float]:
    """Count what the figure should show: points below parity, and where parameters pay."""
    below = [p["kl_corrected"] < p["kl_stale"] for p in points]
    half = [p["kl_corrected"] < p["kl_stale"] / 2 for p in points]
    middle = sorted(p["kl_stale"] for p in points)[len(points) // 2]
    gained = {"small": [0.0], "large": [0.0]}
    few, many = min(p["parameters"] for p in points), max(p["parameters"] for p in points)
    largest = {(*p["drift"], p["gain"]): p for p in points if p["parameters"] == many}
    for p in points:
        if p["parameters"] == few:
            gain = p["kl_corrected"] - largest[(*p["drift"], p["gain"])]["kl_corrected"]
            gained["large" if p["kl_stale"] >= middle else "small"].append(gain)
    return {
        "below_parity": sum(below) / len(below),
        "below_half_of_parity": sum(half) / len(half),
        "median_ratio": sorted(p["kl_corrected"] / p["kl_stale"] for p in points)[len(points) // 2],
        "kl_gained_by_parameters_at_small_drift": sum(gained["small"]) / (len(gained["small"]) - 1),
        "kl_gained_by_parameters_at_large_drift": sum(gained["large"]) / (len(gained["large"]) - 1),
    }


def _draw(results: dict[str, Any], path: Path) -> None:
    points = results["points"]
    with figure(path, size=(6.0, 4.4)) as axes:
        counts = [p["parameters"] for p in points]
        drawn = axes.scatter(
            [p["kl_stale"] for p in points],
            [max(p["kl_corrected"], 1e-5) for p in points],
            c=counts,
            norm="log",
            cmap="viridis",
            s=16,
        )
        ends = [min(p["kl_stale"] for p in points), max(p["kl_stale"] for p in points)]
        axes.plot(ends, ends, "--", color="tab:red", label="parity")
        axes.set(xscale="log", yscale="log", xlabel="KL(P ‖ P_stale)", ylabel="KL(P ‖ P_h)")
        axes.legend(loc="upper left")
        axes.figure.colorbar(drawn, label="parameters of h")


STUDY = Study("synthetic-parameters", SyntheticParametersSettings, measure, _draw)
