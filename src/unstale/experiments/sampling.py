"""Take the top-k, or sample candidates from the softmax by Gumbel-max?

The paper allows both for the truncated softmax and reports the top-k.
"""

from pathlib import Path
from typing import Any

from unstale.experiments.figures import dots, figure
from unstale.experiments.grid import AS_IT_IS, Study


def _draw(results: dict[str, Any], path: Path) -> None:
    with figure(path, columns=2, size=(4.8, 2.8)) as panes:
        for axes, metric in zip(panes, ("recall@1", "recall@10"), strict=True):
            dots(axes, results["tables"][AS_IT_IS], metric)


STRATEGIES = ("stale", "corrected", "exhaustive")

run = Study(
    name="sampling",
    variants={
        **{name: {"strategy": name} for name in STRATEGIES},
        **{f"{name}, gumbel": {"strategy": name, "sampling": "gumbel"} for name in STRATEGIES},
    },
    references=STRATEGIES,
    draw=_draw,
)
