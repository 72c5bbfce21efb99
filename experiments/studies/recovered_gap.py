"""The paper's main table: how much of the gap from stale to exhaustive does each method recover?

The same study makes the table of any dataset and encoder. "To the letter" is the paper's corrector
without what we add to it: no memory, no fallback.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from experiments.studies.figures import dot_panes
from experiments.studies.grid import Grid, GridSettings
from experiments.studies.study import Study
from experiments.studies.variants import LETTER, Variant, choose, mixed
from unstale.declare import setting, taken_from

NAME = "recovered-gap"


@final
@dataclass(frozen=True, kw_only=True)
class Settings(GridSettings):
    """The settings of this study: those of a grid, the mix of negatives, and which rows.

    Args:
        split: The split to measure. The table is made once, with settings chosen on dev.
        hard: Hard negatives of each query, for methods that encode them.
        uniform: Uniform negatives of each query, for the same methods. The paper has as many.
        refreshes: How often exhaustive re-embeds the corpus, and dynnibal refits its regression.
        rows: Which rows, separated by semicolons; by default all.
    """

    seeds: int | str = "0,1,2"
    split: str = "test"
    hard: int = setting(4, least=1)
    uniform: int = setting(1, least=0)
    refreshes: int = setting(80, least=0)
    rows: str = ""


def variants(settings: Settings) -> dict[str, Variant]:
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
    }
    return choose({**others, **encoded, **settings.more}, settings.rows)


def measure(output: Path, settings: Settings) -> dict[str, Any]:
    """Train every row with every seed; write the table."""
    grid = Grid(NAME, variants(settings), references=("in-batch", "exhaustive"))
    found = grid.measure(output, replace(taken_from(GridSettings, settings), more={}))
    mix = {"hard": settings.hard, "uniform": settings.uniform, "refreshes": settings.refreshes}
    return found | {"settings": found["settings"] | mix}


STUDY = Study(NAME, Settings, measure, dot_panes("recall@1", "recall@10", "recall@100", height=3.6))
