"""`unstale experiment NAME`: run a study of the source checkout.

The studies are in the folder `experiments` of the repository, and no part of the wheel.
"""

from dataclasses import replace

from unstale.cli.by_command import find_registry, study_settings
from unstale.cli.options_inspect import ExperimentFlags
from unstale.cli.output import run_folder
from unstale.results import RESULTS
from unstale.shown import say


def run(chosen: ExperimentFlags) -> None:
    """Run one study."""
    study = find_registry().prepare(chosen.name, study_settings(chosen))
    chosen = replace(chosen, output=chosen.output or f"runs/{chosen.name}")
    with run_folder("experiment", chosen) as folder:
        if folder.finished:
            return
        output = folder.begin()
        results = study(output)
    for name, value in results.get("summary", {}).items():
        say(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
    say(f"seconds: {results['seconds']:.0f}\nresults: {output / RESULTS}")
