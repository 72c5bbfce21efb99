"""The paper's toy: stale, true and corrected targets around the unit circle.

What drifts is the angle, unevenly; the corrector is a small residual MLP in the plane.
"""

import math
import time
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unstale.corrector.fit import fit
from unstale.corrector.losses import cross_entropy
from unstale.corrector.network import Corrector
from unstale.experiments.figures import figure, need_matplotlib
from unstale.files import write_json

SCALE = 20.0  # the caption's beta
TARGETS, QUERIES = 64, 64


def run(output: Path, *, seed: int = 0, epochs: int = 600) -> dict[str, Any]:
    """Correct a circle; write results.json and figure.png.

    Args:
        output: The folder to write to.
        seed: Of the corrector and of the queries.
        epochs: The most epochs.
    """
    need_matplotlib()
    began = time.perf_counter()
    torch.manual_seed(seed)
    angles = torch.linspace(0, 2 * math.pi, TARGETS + 1)[:-1]
    stale = on_circle(angles)
    fresh = on_circle(angles + 0.6 + 0.5 * torch.sin(2 * angles))
    queries = on_circle(2 * math.pi * torch.rand(QUERIES))
    corrector = Corrector(2, (32,))
    fitted = fit(
        corrector, stale, fresh, queries=queries, scale=SCALE, anchor=1.0,
        learning_rate=0.01, epochs=epochs,
    )  # fmt: skip
    with torch.no_grad():
        corrected = corrector(stale)
    point = on_circle(torch.tensor([1.2]))  # the query whose distributions are drawn
    seen = {"true": fresh, "stale": stale, "corrected": corrected}
    mass = {k: torch.softmax(SCALE * point @ v.T, dim=1)[0].tolist() for k, v in seen.items()}
    unseen = on_circle(2 * math.pi * torch.rand(256))
    results = {
        "experiment": "toy-circle",
        "settings": {"seed": seed, "epochs": epochs, "scale": SCALE, "targets": TARGETS},
        "kl_stale": cross_entropy(unseen, fresh, stale, SCALE).item(),
        "kl_corrected": cross_entropy(unseen, fresh, corrected, SCALE).item(),
        "epochs_run": fitted.epochs,
        "targets": {k: v.tolist() for k, v in seen.items()},
        "query": point[0].tolist(),
        "distributions": mass,
        "seconds": time.perf_counter() - began,
    }
    write_json(output / "results.json", results)
    _draw(results, output / "figure.png")
    return results


def on_circle(angles: Float[Tensor, " n"]) -> Float[Tensor, "n 2"]:
    """Place angles on the unit circle."""
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def _draw(results: dict[str, Any], path: Path) -> None:
    styles = {"true": ("o", "tab:green"), "stale": ("x", "tab:red"), "corrected": ("+", "tab:blue")}
    with figure(path, columns=2, size=(4.6, 4.2)) as (plane, bars):
        for name, (marker, colour) in styles.items():
            xs, ys = zip(*results["targets"][name], strict=True)
            radius = {"true": 1.0, "stale": 0.85, "corrected": 1.0}[name]  # stale drawn inside
            plane.scatter(
                [radius * x for x in xs],
                [radius * y for y in ys],
                color=colour,
                marker=marker,
                s=30,
                label=name + (" (drawn at 0.85)" if name == "stale" else ""),
            )
            thick = {"linewidth": 5, "alpha": 0.5} if name == "true" else {}
            bars.plot(results["distributions"][name], color=colour, label=name, **thick)
        plane.scatter(*results["query"], marker="*", s=140, color="black", label="query")
        plane.set(aspect="equal", xlabel="first dimension", ylabel="second dimension")
        plane.legend(loc="center", fontsize=8)
        bars.set(xlabel="target", ylabel=f"P(y | x) at scale {results['settings']['scale']:.0f}")
        bars.legend(fontsize=8)
