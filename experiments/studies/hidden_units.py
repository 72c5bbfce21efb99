"""The paper's table "Steps-Per-Second": what does a wider corrector cost, and what does it buy?

Exact search runs h over the whole buffer at every step, as the paper does; rolling search, which
does not, stands beside it at the larger widths.
"""

from pathlib import Path
from typing import Any

from experiments.studies.figures import figure, line, log_ticks
from experiments.studies.grid import AS_IT_IS, Grid
from experiments.studies.grid_table import Paper

WIDTHS = (0, 256, 768, 2048, 4096, 8192)
ROLLING = (768, 2048, 8192)


def _corrected(width: int, search: str) -> dict[str, Any]:
    return {"strategy": "corrected", "corrector_hidden": width, "search": search}


def _draw(results: dict[str, Any], path: Path) -> None:
    rows = {row["variant"]: row for row in results["tables"][AS_IT_IS]}
    with figure(path, columns=2, size=(5.0, 3.8)) as (quality, speed):
        for search, widths in (("exact", WIDTHS), ("rolling", ROLLING)):
            chosen = [rows[f"{width} {search}"] for width in widths]
            places = [max(width, 64) for width in widths]  # 0 has no place on a log scale
            line(quality, places, chosen, "recall@10", f"corrected, {search}")
            paces = [row["steps_per_second"] for row in chosen]
            speed.plot(places, paces, "o-", label=f"corrected, {search}")
        for name, style in (("stale", ":"), ("exhaustive", "--")):
            mean = 100 * sum(rows[name]["metrics"]["recall@10"]) / len(results["settings"]["seeds"])
            quality.axhline(mean, linestyle=style, color="gray", label=name)
            pace = rows[name]["steps_per_second"]
            speed.axhline(pace, linestyle=style, color="gray", label=name)
        for axes in (quality, speed):
            axes.set(xlabel="hidden units")
            log_ticks(axes, [max(width, 64) for width in WIDTHS], WIDTHS)
        speed.set(yscale="log", ylabel="steps per second")


GRID = Grid(
    name="hidden-units",
    variants={
        "stale": {"strategy": "stale"},
        "exhaustive": {"strategy": "exhaustive"},
        **{f"{width} exact": _corrected(width, "exact") for width in WIDTHS},
        **{f"{width} rolling": _corrected(width, "rolling") for width in ROLLING},
    },
    references=("stale", "exhaustive"),
    draw=_draw,
    paper=Paper(
        "NQ dev, GTR-base",
        ("", "hidden units", "steps/s", "R@1", "R@20", "R@100"),
        (
            ("exhaustive", "", "0.43", "36.29", "82.07", "91.70"),
            ("corrector", "8192", "0.83", "35.78", "81.52", "91.37"),
            ("corrector", "4096", "1.10", "35.53", "81.63", "91.07"),
            ("corrector", "2048", "1.83", "35.55", "81.07", "91.08"),
        ),
    ),
)

STUDY = GRID.study()
