"""`unstale experiment NAME`: run a study of the source checkout.

The studies are in the folder `experiments` of the repository, and no part of the wheel.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import unstale
from unstale.cli.options import ExperimentFlags
from unstale.cli.output import run_folder
from unstale.errors import InputError
from unstale.results import RESULTS
from unstale.shown import say

# From a name and its settings to what runs the study in a folder and returns its results.
Prepare = Callable[[str, Mapping[str, Any]], Callable[[Path], dict[str, Any]]]


def run(chosen: ExperimentFlags) -> None:
    """Run one study."""
    given = {"seed": chosen.seed, "data": chosen.data, "train": chosen.train or None, **chosen.set}
    settings = {name: value for name, value in given.items() if value is not None}
    study = _find_prepare()(chosen.name, settings)
    chosen = replace(chosen, output=chosen.output or f"runs/{chosen.name}")
    with run_folder("experiment", chosen) as folder:
        if folder.finished:
            return
        output = folder.begin()
        results = study(output)
    for name, value in results.get("summary", {}).items():
        say(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
    say(f"seconds: {results['seconds']:.0f}\nresults: {output / RESULTS}")


def _find_prepare() -> Prepare:
    """Import the studies of the checkout that this package, or the current folder, is part of."""
    places = (Path(unstale.__file__).resolve().parents[2], Path.cwd())
    for place in places:
        if (place / "experiments" / "registry.py").is_file():
            sys.path.insert(0, str(place))
            prepare: Prepare = import_module("experiments.registry").prepare
            return prepare
    raise InputError(
        "the experiments are part of unstale's source checkout, not of the installed package, and "
        f"neither {places[0]} nor the current folder is a checkout: clone the repository, and run "
        "this command in its folder, or install it from there with `pip install -e .`"
    )
