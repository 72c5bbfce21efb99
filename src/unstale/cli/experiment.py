"""`unstale experiment NAME`: the studies, by name."""

from importlib import import_module
from inspect import signature
from typing import Any

from unstale.cli import options
from unstale.cli.folders import abandon, open_output, save_config
from unstale.errors import InputError

# name: "module:function"; the function takes the output folder and keywords, writes results.json,
# and returns what it wrote. Its keywords are the settings that `--set.NAME VALUE` reaches.
EXPERIMENTS: dict[str, str] = {
    "generalization": "unstale.experiments.generalization:run",
    "hard-negatives": "unstale.experiments.hard_negatives:run",
    "hidden-units": "unstale.experiments.hidden_units:run",
    "migration": "unstale.experiments.migration:run",
    "quality-per-second": "unstale.experiments.quality_per_second:run",
    "sampling": "unstale.experiments.sampling:run",
    "small-to-large": "unstale.experiments.small_to_large:run",
    "starting-points": "unstale.experiments.starting_points:run",
    "synthetic-parameters": "unstale.experiments.synthetic_parameters:run",
    "synthetic-samples": "unstale.experiments.synthetic_samples:run",
    "toy-circle": "unstale.experiments.toy_circle:run",
    "uniform-negatives": "unstale.experiments.uniform_negatives:run",
}


def run(chosen: options.Experiment) -> None:
    """Run one study."""
    if chosen.name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise InputError(f"no experiment {chosen.name!r}; there are {known}")
    where = chosen.output or f"runs/{chosen.name}"
    open_output(where, overwrite=chosen.overwrite, resume=chosen.resume, dry=True)
    module, function = EXPERIMENTS[chosen.name].split(":")
    study = getattr(import_module(module), function)
    defaults = {k: p.default for k, p in signature(study).parameters.items() if k != "output"}
    given = {"seed": chosen.seed, "data": chosen.data, "train": chosen.train or None, **chosen.set}
    settings = {name: value for name, value in given.items() if value is not None}
    if unknown := sorted(settings.keys() - defaults):
        rule = f"it takes {', '.join(sorted(defaults))}"
        raise InputError(f"{chosen.name} has no setting {', '.join(unknown)}; {rule}")
    for name, value in settings.items():
        _check_count(name, value, defaults[name])
    output = open_output(where, overwrite=chosen.overwrite, resume=chosen.resume)
    save_config(output, "experiment", chosen)
    try:
        results = study(output, **settings)
    except InputError:
        abandon(output)
        raise
    for name, value in results.get("summary", {}).items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
    print(f"seconds: {results['seconds']:.0f}\nresults: {output / 'results.json'}")


def _check_count(name: str, value: Any, default: Any) -> None:  # noqa: ANN401 - any setting
    """Refuse none of what there must be some of: epochs, queries, resamples."""
    counts = type(default) is int and name != "seed"
    if counts and (type(value) is not int or value < 1):
        raise InputError(f"--set.{name} {value}: expected a whole number, at least 1")
