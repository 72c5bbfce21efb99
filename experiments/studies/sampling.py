"""Take the top-k, or sample candidates from the softmax by Gumbel-max?

The paper allows both for the truncated softmax and reports the top-k.
"""

from experiments.studies.figures import dot_panes
from experiments.studies.grid import Grid

STRATEGIES = ("stale", "corrected", "exhaustive")

GRID = Grid(
    name="sampling",
    variants={
        **{name: {"strategy": name} for name in STRATEGIES},
        **{f"{name}, gumbel": {"strategy": name, "sampling": "gumbel"} for name in STRATEGIES},
    },
    references=STRATEGIES,
    draw=dot_panes("recall@1", "recall@10", height=2.8),
)

STUDY = GRID.study()
