"""The paper's table "Uniform Negatives": do uniform targets help beside hard ones?

The paper asks it of exhaustive training only; here corrected training is asked, too.
"""

from pathlib import Path
from typing import Any

from unstale.experiments.figures import dots, figure
from unstale.experiments.grid import AS_IT_IS, Study
from unstale.experiments.grid_table import Paper


def _draw(results: dict[str, Any], path: Path) -> None:
    with figure(path, columns=2, size=(4.8, 2.6)) as panes:
        for axes, metric in zip(panes, ("recall@1", "recall@100"), strict=True):
            dots(axes, results["tables"][AS_IT_IS], metric)


run = Study(
    name="uniform-negatives",
    variants={
        "exhaustive": {"strategy": "exhaustive"},
        "exhaustive, no uniform": {"strategy": "exhaustive", "uniform_negatives": 0},
        "corrected": {"strategy": "corrected"},
        "corrected, no uniform": {"strategy": "corrected", "uniform_negatives": 0},
    },
    references=("exhaustive", "corrected"),
    draw=_draw,
    paper=Paper(
        "NQ dev, exhaustive",
        ("", "R@1", "R@100"),
        (
            ("T5, with uniform", "24.70", "79.94"),
            ("T5, without", "24.87", "79.82"),
            ("GTR, with uniform", "36.29", "91.73"),
            ("GTR, without", "36.53", "91.70"),
        ),
    ),
)
