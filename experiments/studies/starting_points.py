"""Two starts, one trained for retrieval and one not: where is correction, or one refresh, needed?

The paper's GTR against T5, and its comparison with two-round training. The untrained start is the
model as it is; the trained one is what in-batch training on the same pairs makes of it. Weights
drawn at random would not do for the first: they hardly move in a short training, so nothing drifts.
"""

from pathlib import Path
from typing import Any

from experiments.studies.figures import dots, figure
from experiments.studies.grid import AS_IT_IS, Grid
from experiments.studies.grid_table import Paper

TRAINED = "trained for retrieval"


def _draw(results: dict[str, Any], path: Path) -> None:
    with figure(path, columns=2, size=(4.6, 2.8)) as panes:
        for axes, (start, rows) in zip(panes, results["tables"].items(), strict=True):
            dots(axes, rows, "recall@10")
            drift = max(row["drift"] for row in rows)
            axes.set_title(f"{start} (drift {drift:.2f})", fontsize=10)


GRID = Grid(
    name="starting-points",
    variants={
        name: {"strategy": name} for name in ("stale", "two-round", "corrected", "exhaustive")
    },
    # Its own seed: the batches of the first training are not those of a second.
    starts={AS_IT_IS: None, TRAINED: {"strategy": "in-batch", "seed": 1_000}},
    references=("stale", "two-round", "exhaustive"),
    draw=_draw,
    paper=Paper(
        "NQ test; its GTR corrector row equals its MSE row elsewhere, where cross-entropy has "
        "50.61, 71.00, 77.73, 82.66, 88.39",
        ("", "R@1", "R@5", "R@10", "R@20", "R@100"),
        (
            ("T5, stale", "27.65", "50.19", "59.28", "66.98", "78.95"),
            ("T5, two-round", "29.50", "53.40", "62.49", "70.64", "80.94"),
            ("T5, corrector", "36.65", "59.25", "68.06", "73.71", "83.13"),
            ("T5, exhaustive", "37.34", "60.42", "68.70", "74.76", "83.41"),
            ("GTR, stale", "46.76", "68.64", "75.21", "80.66", "87.48"),
            ("GTR, two-round", "49.06", "70.06", "76.76", "81.17", "87.95"),
            ("GTR, corrector", "49.61", "70.72", "77.04", "82.33", "88.28"),
            ("GTR, exhaustive", "50.30", "71.55", "78.12", "82.83", "88.59"),
        ),
    ),
)

STUDY = GRID.study()
