"""`unstale report`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unstale.cli.config import CONFIG, read_config
from unstale.cli.flags import helps, marked_flags
from unstale.cli.options import CompareFlags, RagFlags
from unstale.cli.options_inspect import ReportFlags
from unstale.report.page import write_page
from unstale.shown import say

# Matters of one machine, which a reader does not need; the strategy stands in the results.
HIDDEN = marked_flags(CompareFlags, "local") | marked_flags(RagFlags, "local") | {"strategy", "rag"}


def run(chosen: ReportFlags) -> None:
    """Write the page of a run, and say where it is."""
    folder = Path(chosen.run)
    flags = read_config(folder) if (folder / CONFIG).is_file() else {}
    say(f"open {write_page(folder, recipe(flags))}")


def recipe(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the flags of a run that its report shows: all but the hidden ones.

    Example:
        >>> recipe({"output": "runs/a", "seed": 0, "seeds": "0,1", "steps": 9, "rag": {"k": 8}})
        {'seeds': '0,1', 'steps': 9, 'k': 8}
        >>> recipe({"scale": None, "max_score": None})  # chosen by default, and not applied
        {'scale': 'default', 'max_score': None}
    """
    nested = flags.get("rag")  # a comparison's flags for Algorithm 2
    everything = {**flags, **(nested if isinstance(nested, dict) else {})}
    left_out = HIDDEN | ({"seed"} if "seeds" in flags else set())
    about = helps(CompareFlags) | helps(RagFlags)
    chosen = {name for name, text in about.items() if "Default:" in text}
    return {
        name: "default" if value is None and name in chosen else value
        for name, value in everything.items()
        if name not in left_out
    }
