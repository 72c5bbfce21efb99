"""`unstale report`."""

from pathlib import Path
from typing import Any

from unstale.cli import options
from unstale.cli.folders import CONFIG, read_config
from unstale.errors import InputError
from unstale.report.page import write_page


def run(chosen: options.Report) -> None:
    """Write the page of a run, and say where it is."""
    folder = Path(chosen.run)
    if not folder.is_dir():
        raise InputError(f"no run folder {folder}")
    print(f"open {write_page(folder, run_settings(folder))}")


def run_settings(folder: Path) -> dict[str, Any]:
    """Read the flags that a run was given, if its folder has them."""
    return read_config(folder) if (folder / CONFIG).is_file() else {}
