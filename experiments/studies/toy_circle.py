"""The paper's toy: stale, true and corrected targets around the unit circle.

What drifts is the angle, unevenly; the corrector is a small residual MLP in the plane.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.studies.declared import ToyCircleSettings
from experiments.studies.figures import figure
from experiments.studies.study import Study
from unstale.corrector.fit import fit
from unstale.corrector.losses import cross_entropy
from unstale.corrector.network import Corrector

SCALE = 20.0  # the caption's beta
TARGETS, QUERIES = 64, 64


def measure(output: Path, settings: ToyCircleSettings) -> dict[str, Any]:
    """Correct a circle."""
    torch.manual_seed(settings.seed)
    angles = torch.linspace(0, 2 * math.pi, TARGETS + 1)[:-1]
    stale = on_circle(angles)
    fresh = on_circle(angles + 0.6 + 0.5 * torch.sin(2 * angles))
    queries = on_circle(2 * math.pi * torch.rand(QUERIES))
    corrector = Corrector(2, (32,))
    fitted = fit(
        corrector, stale, fresh, queries=queries, scale=SCALE, anchor=1.0,
        learning_rate=0.01, epochs=settings.epochs,
    )  # fmt: skip
    with torch.no_grad():
        corrected = corrector(stale)
    point = on_circle(torch.tensor([1.2]))  # the query whose distributions are drawn
    seen = {"true": fresh, "stale": stale, "corrected": corrected}
    mass = {k: torch.softmax(SCALE * point @ v.T, dim=1)[0].tolist() for k, v in seen.items()}
    unseen = on_circle(2 * math.pi * torch.rand(256))
    return {
        "settings": asdict(settings) | {"scale": SCALE, "targets": TARGETS},
        "kl_stale": cross_entropy(unseen, fresh, stale, SCALE).item(),
        "kl_corrected": cross_entropy(unseen, fresh, corrected, SCALE).item(),
        "epochs_run": fitted.epochs,
        "targets": {k: v.tolist() for k, v in seen.items()},
        "query": point[0].tolist(),
        "distributions": mass,
    }


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


STUDY = Study("toy-circle", ToyCircleSettings, measure, _draw)
