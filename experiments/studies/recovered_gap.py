"""The paper's main table: how much of the gap from stale to exhaustive does each method recover?

The same study makes the table of any dataset and encoder. "To the letter" is the paper's corrector
without what we add to it: no memory, no fallback.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.studies.declared import GridSettings, RecoveredGapSettings
from experiments.studies.figures import dot_panes
from experiments.studies.grid import Grid
from experiments.studies.study import Study
from experiments.studies.variants import LETTER, STAGED, Variant, choose, mixed
from unstale.declare import taken_from

NAME = "recovered-gap"


def variants(settings: RecoveredGapSettings) -> dict[str, Variant]:
    """Return the rows of the table."""
    refreshed = {"refreshes": settings.refreshes}
    encoding: dict[str, Variant] = {
        "uniform": {"strategy": "uniform"},
        "stale": {"strategy": "stale"},
        "to the letter, equation 5 as printed": {**LETTER, "corrector_loss": "distance"},
        "to the letter, MSE": {**LETTER, "corrector_loss": "mse"},
        "to the letter, CE": {**LETTER, "corrector_loss": "ce"},
        "dynnibal, no re-embedding": {"strategy": "dynnibal", "full_refreshes": 0, **refreshed},
        "corrected": {"strategy": "corrected"},
        "exhaustive": {"strategy": "exhaustive", **refreshed},
    }
    encoded = {
        label: mixed(own, settings.hard, settings.uniform) for label, own in encoding.items()
    }
    others: dict[str, Variant] = {
        "in-batch": {"strategy": "in-batch"},
        "staged": {"strategy": "staged"},
        "staged, all targets": STAGED,
    }
    return choose({**others, **encoded, **settings.more}, settings.rows)


def measure(output: Path, settings: RecoveredGapSettings) -> dict[str, Any]:
    """Train every row with every seed; write the table."""
    grid = Grid(NAME, variants(settings), references=("in-batch", "exhaustive"))
    found = grid.measure(output, replace(taken_from(GridSettings, settings), more={}))
    mix = {"hard": settings.hard, "uniform": settings.uniform, "refreshes": settings.refreshes}
    return found | {"settings": found["settings"] | mix}


STUDY = Study(
    NAME,
    RecoveredGapSettings,
    measure,
    dot_panes("recall@1", "recall@10", "recall@100", height=3.6),
)
