"""How many hard negatives a query? Corrected against stale, as their number grows.

The paper has 64 a query and does not vary it.
"""

from pathlib import Path
from typing import Any

from experiments.studies.figures import figure, line, log_ticks
from experiments.studies.grid import AS_IT_IS, Grid

COUNTS = (1, 2, 4, 8, 16)
STRATEGIES = ("stale", "corrected")


def _draw(results: dict[str, Any], path: Path) -> None:
    rows = {row["variant"]: row for row in results["tables"][AS_IT_IS]}
    with figure(path, columns=3, size=(4.2, 3.6)) as (first, tenth, speed):
        for name in STRATEGIES:
            chosen = [rows[f"{name}, {count}"] for count in COUNTS]
            line(first, COUNTS, chosen, "recall@1", name)
            line(tenth, COUNTS, chosen, "recall@10", name)
            speed.plot(COUNTS, [row["steps_per_second"] for row in chosen], "o-", label=name)
        for axes in (first, tenth, speed):
            axes.set(xlabel="hard negatives a query")
            log_ticks(axes, COUNTS, COUNTS)
        speed.set(ylabel="steps per second")


GRID = Grid(
    name="hard-negatives",
    variants={
        f"{name}, {count}": {"strategy": name, "hard_negatives": count}
        for name in STRATEGIES
        for count in COUNTS
    },
    references=("corrected, 4",),
    draw=_draw,
)

STUDY = GRID.study()
