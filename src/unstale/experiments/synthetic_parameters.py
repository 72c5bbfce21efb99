"""The paper's figure "Parameter Count": what does a larger corrector buy, at what drift?

Many drifts, each corrected by every shape of h: KL(P || P_stale) against KL(P || P_h).
"""

import time
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from unstale.errors import InputError
from unstale.experiments.batched import EPOCHS, Tasks, residual_mlp, start, train_correctors
from unstale.experiments.figures import figure, need_matplotlib
from unstale.experiments.synthetic import (
    DIM,
    SCALE,
    SHAPES,
    TARGETS,
    World,
    divergence,
    make_world,
    parameter_count,
)
from unstale.files import write_json

GAINS = (0.5, 1.0, 1.5)


def run(
    output: Path, *, seed: int = 0, fraction: float = 0.25, epochs: int = EPOCHS, gains: int = 3
) -> dict[str, Any]:
    """Train every shape of corrector on every drift; write results.json and figure.png.

    Args:
        output: The folder to write to.
        seed: Of worlds, samples and correctors.
        fraction: Of the targets, the part that trains; the divergence is over all of them.
        epochs: The most epochs.
        gains: How many variances of the drift, at most three.
    """
    need_matplotlib()
    if not 0 < fraction <= 1 or not 1 <= gains <= len(GAINS):
        raise InputError(f"fraction {fraction} must be in (0, 1], gains {gains} in 1..{len(GAINS)}")
    began, used_before = time.perf_counter(), time.process_time()
    kinds = [(drift, gain) for drift in SHAPES for gain in GAINS[:gains]]
    worlds = [make_world(*kind, seed=1000 * seed + i) for i, kind in enumerate(kinds)]
    rows = torch.randperm(TARGETS, generator=torch.Generator().manual_seed(seed))
    rows = rows[: round(fraction * TARGETS)]
    tasks = Tasks(
        torch.stack([w.stale[rows] for w in worlds]),
        torch.stack([w.fresh[rows] for w in worlds]),
        torch.stack([w.queries for w in worlds]),
        SCALE,
    )
    staleness = [w.staleness for w in worlds]
    points = []
    for shape in tqdm(SHAPES, desc="shapes of h"):
        found = _corrected(worlds, tasks, shape, epochs, seed)
        points += [
            {"drift": list(kind[0]), "gain": kind[1], "hidden": list(shape)}
            | {"parameters": parameter_count(shape), "kl_stale": s, "kl_corrected": kl}
            for kind, s, kl in zip(kinds, staleness, found, strict=True)
        ]
    results = {
        "experiment": "synthetic-parameters",
        "settings": {"seed": seed, "fraction": fraction, "epochs": epochs, "scale": SCALE},
        "points": points,
        "summary": _summary(points),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - used_before,
    }
    write_json(output / "results.json", results)
    _draw(points, output / "figure.png")
    return results


def _corrected(
    worlds: list[World], tasks: Tasks, shape: tuple[int, ...], epochs: int, seed: int
) -> list[float]:
    """Train one shape on all worlds at once; return KL(P || P_h) on queries it never saw."""
    generator = torch.Generator().manual_seed(seed + len(shape) + sum(shape))
    best = train_correctors(tasks, start(len(worlds), [DIM, *shape, DIM], generator), epochs=epochs)
    with torch.no_grad():
        corrected = residual_mlp(best, torch.stack([w.stale for w in worlds]))
    return [divergence(w.held_out, w.fresh, h) for w, h in zip(worlds, corrected, strict=True)]


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


def _draw(points: list[dict[str, Any]], path: Path) -> None:
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
