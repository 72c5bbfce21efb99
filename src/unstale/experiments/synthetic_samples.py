"""The paper's figure "Training Sample Size": how many fresh targets does a corrector need?

A mild and a strong drift; correctors of every size, trained on fractions of the targets.
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

FRACTIONS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
SMALL = 0.1  # fractions up to this one use all repeats; larger ones, which vary less, half of them
PANES = {"somewhat stale": ((64, 64), 0.9), "significantly stale": ((64, 64), 1.5)}


def run(output: Path, *, seed: int = 0, repeats: int = 4, epochs: int = EPOCHS) -> dict[str, Any]:
    """Train every shape of corrector on every fraction; write results.json and figure.png.

    Args:
        output: The folder to write to.
        seed: Of worlds, samples and correctors.
        repeats: Worlds to a pane; the figure shows their mean.
        epochs: The most epochs.
    """
    need_matplotlib()
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, got {repeats}")
    began, used_before = time.perf_counter(), time.process_time()
    panes = [name for name in PANES for _ in range(repeats)]
    worlds = [
        make_world(*PANES[name], seed=100 + 1000 * seed + i % repeats)
        for i, name in enumerate(panes)
    ]
    points = []
    jobs = [(shape, fraction) for shape in SHAPES for fraction in FRACTIONS]
    for shape, fraction in tqdm(jobs, desc="correctors"):
        used = [
            i for i in range(len(worlds)) if fraction <= SMALL or i % repeats < (repeats + 1) // 2
        ]
        some, names = [worlds[i] for i in used], [panes[i] for i in used]
        found = _corrected(some, shape, fraction, epochs, seed)
        points += [
            {"pane": pane, "fraction": fraction, "targets": round(fraction * TARGETS)}
            | {"hidden": list(shape), "parameters": parameter_count(shape)}
            | {"kl_stale": world.staleness, "kl_corrected": kl, "kl_training": trained}
            for pane, world, (kl, trained) in zip(names, some, found, strict=True)
        ]
    curves = _curves(points)
    results = {
        "experiment": "synthetic-samples",
        "settings": {"seed": seed, "repeats": repeats, "epochs": epochs, "scale": SCALE},
        "points": points,
        "curves": curves,
        "summary": _summary(points),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - used_before,
    }
    write_json(output / "results.json", results)
    _draw(curves, output / "figure.png")
    return results


def _corrected(
    worlds: list[World], shape: tuple[int, ...], fraction: float, epochs: int, seed: int
) -> list[tuple[float, float]]:
    """Return KL(P || P_h) over all targets on unseen queries, and over what it was trained on."""
    generator = torch.Generator().manual_seed(seed + len(shape) + sum(shape))
    rows = [
        torch.randperm(TARGETS, generator=generator)[: round(fraction * TARGETS)] for _ in worlds
    ]
    tasks = Tasks(
        torch.stack([w.stale[r] for w, r in zip(worlds, rows, strict=True)]),
        torch.stack([w.fresh[r] for w, r in zip(worlds, rows, strict=True)]),
        torch.stack([w.queries for w in worlds]),
        SCALE,
    )
    best = train_correctors(tasks, start(len(worlds), [DIM, *shape, DIM], generator), epochs=epochs)
    with torch.no_grad():
        trained = tasks.divergence(residual_mlp(best, tasks.stale)).tolist()
        corrected = residual_mlp(best, torch.stack([w.stale for w in worlds]))
    found = [divergence(w.held_out, w.fresh, h) for w, h in zip(worlds, corrected, strict=True)]
    return list(zip(found, trained, strict=True))


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


def _draw(curves: list[dict[str, Any]], path: Path) -> None:
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
