"""`unstale report`."""

from pathlib import Path
from typing import Any

import yaml

from unstale.cli import options
from unstale.cli.folders import CONFIG
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
    path = folder / CONFIG
    if not path.is_file():
        return {}
    try:
        settings = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not YAML ({error})") from None
    if not isinstance(settings, dict):
        raise InputError(f"{path} must be a list of flags and values")
    return settings
