"""Which studies are there? `unstale experiment NAME` asks here, and knows none by itself."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies import declared
from experiments.studies.settings import read_settings
from unstale.errors import InputError

if TYPE_CHECKING:  # a list of names must not wait for torch
    from experiments.studies.study import Study

# Each is the constant STUDY of studies/NAME.py, with _ for -.
STUDIES = {
    "generalization": "The terms of the paper's theorem, measured on synthetic worlds.",
    "hard-negatives": "Corrected against stale training as the number of hard negatives grows.",
    "hidden-units": "What a wider corrector costs and what it gains.",
    "migration": "Whether the estimates of `unstale correct` hold where the truth is known.",
    "number-of-targets": "How the gain over in-batch negatives grows with the corpus.",
    "quality-per-second": "Which recipe is best after the same time.",
    "recovered-gap": "The paper's main table: the gap from stale to exhaustive, by method.",
    "sampling": "Top-k candidates against candidates sampled from the softmax.",
    "small-to-large": "A small model's index, corrected to find a large model's neighbours.",
    "starting-points": "Encoders trained for retrieval, or not, before correction starts.",
    "synthetic-parameters": "What a larger corrector gains, at which drift.",
    "synthetic-samples": "How many fresh targets a corrector needs.",
    "toy-circle": "Stale, true and corrected targets around the unit circle.",
    "trade-off": "Recall against the number of targets re-embedded.",
    "uniform-negatives": "Whether uniform targets help beside hard ones.",
}
SETTINGS: Mapping[str, type[Any]] = {  # the others are grids without more
    "number-of-targets": declared.NumberOfTargetsSettings,
    "quality-per-second": declared.QualityPerSecondSettings,
    "recovered-gap": declared.RecoveredGapSettings,
    "trade-off": declared.TradeOffSettings,
    "generalization": declared.GeneralizationSettings,
    "migration": declared.MigrationSettings,
    "small-to-large": declared.SmallToLargeSettings,
    "synthetic-parameters": declared.SyntheticParametersSettings,
    "synthetic-samples": declared.SyntheticSamplesSettings,
    "toy-circle": declared.ToyCircleSettings,
}


def check_study(name: str) -> None:
    """Refuse an unknown name with the list of all."""
    if name not in STUDIES:
        known = "".join(f"\n  {key:<22}{about}" for key, about in STUDIES.items())
        raise InputError(f"there is no experiment {name!r}; the experiments are:{known}")


def find_study(name: str) -> "Study[Any]":
    """Import a study."""
    check_study(name)
    study: Study[Any] = import_module(f"experiments.studies.{name.replace('-', '_')}").STUDY
    return study


def read_study(name: str, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - its own dataclass
    """Make the settings of a study of what was given; refuse what it does not know or accept."""
    check_study(name)
    return read_settings(name, SETTINGS.get(name, declared.GridSettings), given)


def prepare(name: str, given: Mapping[str, Any]) -> Callable[[Path], dict[str, Any]]:
    """Return what runs a study in a folder; refuse wrong settings before any work."""
    settings = read_study(name, given)
    study = find_study(name)
    return lambda output: study.run(output, settings)
