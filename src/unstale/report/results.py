"""The one file that every run leaves: results.json."""

import json
from pathlib import Path
from typing import Any

from unstale.errors import InputError
from unstale.files import write_json

RESULTS = "results.json"


def write_results(
    folder: Path,
    data: dict[str, Any],
    runs: list[dict[str, Any]],
    summary: dict[str, Any] | None = None,
) -> None:
    """Write `{"data": counts, "runs": [...]}`, one entry a run, and a comparison's summary."""
    results: dict[str, Any] = {"data": data, "runs": runs}
    write_json(folder / RESULTS, results | ({"summary": summary} if summary else {}))


def read_results(folder: Path) -> dict[str, Any]:
    """Read a run folder's results."""
    path = folder / RESULTS
    if not path.is_file():
        raise InputError(f"no {RESULTS} in {folder}: not a finished run")
    try:
        results = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})") from None
    if not isinstance(results, dict) or not isinstance(results.get("runs"), list):
        raise InputError(f"{path} is not the results of a run")
    return results
