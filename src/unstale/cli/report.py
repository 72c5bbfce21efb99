"""`unstale report`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unstale.cli import options
from unstale.cli.flags import local_flags
from unstale.cli.folders import CONFIG, read_config
from unstale.cli.options_rag import Rag
from unstale.errors import InputError
from unstale.report.page import write_page

# Matters of one machine, which a reader does not need; the strategy stands in the results.
HIDDEN = local_flags(options.Compare) | local_flags(Rag) | {"strategy", "rag"}


def run(chosen: options.Report) -> None:
    """Write the page of a run, and say where it is."""
    folder = Path(chosen.run)
    if not folder.is_dir():
        raise InputError(f"no run folder {folder}")
    flags = read_config(folder) if (folder / CONFIG).is_file() else {}
    print(f"open {write_page(folder, recipe(flags))}")


def recipe(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the flags of a run that its report shows: all but the hidden ones.

    Example:
        >>> recipe({"output": "runs/a", "seed": 0, "seeds": "0,1", "steps": 9, "rag": {"k": 8}})
        {'seeds': '0,1', 'steps': 9, 'k': 8}
    """
    nested = flags.get("rag")  # a comparison's flags for Algorithm 2
    everything = {**flags, **(nested if isinstance(nested, dict) else {})}
    left_out = HIDDEN | ({"seed"} if "seeds" in flags else set())
    return {name: value for name, value in everything.items() if name not in left_out}
