"""The paper's table "Uniform Negatives": do uniform targets help beside hard ones?

The paper asks it of exhaustive training only; here corrected training is asked, too.
"""

from experiments.studies.figures import dot_panes
from experiments.studies.grid import Grid
from experiments.studies.grid_table import Paper

GRID = Grid(
    name="uniform-negatives",
    variants={
        "exhaustive": {"strategy": "exhaustive"},
        "exhaustive, no uniform": {"strategy": "exhaustive", "uniform_negatives": 0},
        "corrected": {"strategy": "corrected"},
        "corrected, no uniform": {"strategy": "corrected", "uniform_negatives": 0},
    },
    references=("exhaustive", "corrected"),
    draw=dot_panes("recall@1", "recall@100", height=2.6),
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

STUDY = GRID.study()
