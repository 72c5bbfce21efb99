"""The runs of results.json, checked and grouped by strategy, for pages, charts and words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import final

from unstale.errors import InputError
from unstale.miners import strategies
from unstale.results import JsonObject, RunResult, number


@final
@dataclass(frozen=True)
class Group:
    """The runs of one strategy, one a seed."""

    strategy: str
    runs: Sequence[RunResult]

    @property
    def trained(self) -> bool:
        """Tell whether the encoder was trained, not only measured."""
        return any(run.steps for run in self.runs)

    @property
    def name(self) -> str:
        """Name the strategy for a reader."""
        return self.strategy if self.trained else "as it is"

    @property
    def tone(self) -> str:
        """Name the class of the style sheet that colours the strategy; an unknown one is grey."""
        found = strategies().get(self.strategy)
        return f"tone-{found.tone if found else 'other'}"

    def average(self, value: Callable[[RunResult], float | int | None]) -> float | None:
        """Average a value over the seeds that have it."""
        found = [v for run in self.runs if (v := value(run)) is not None]
        return fmean(found) if found else None

    def metric(self, name: str) -> list[float]:
        """List a metric over the seeds."""
        return [run.metrics[name] for run in self.runs if name in run.metrics]

    def mean(self, name: str) -> float | None:
        """Average a metric over the seeds."""
        return self.average(lambda run: run.metrics.get(name))

    def readings(self, name: str) -> list[tuple[float, list[float]]]:
        """Return `(step, values over the seeds)` of a freshness reading."""
        return _by_step([run.freshness for run in self.runs], name)

    def losses(self) -> list[tuple[float, list[float]]]:
        """Return `(step, losses over the seeds)`."""
        return _by_step([run.losses or [] for run in self.runs], "loss")

    def curve(self, name: str) -> list[tuple[float, list[float]]]:
        """Return `(step, values over the seeds)` of what was measured before and during the run."""
        return _by_step([_with_start(run) for run in self.runs], name)


def read_groups(results: JsonObject, source: object) -> list[Group]:
    """Check and group the runs of results.json; `source` names the file in errors."""
    runs = results.get("runs")
    if not isinstance(runs, list) or not runs:
        raise InputError(f"{source}: `runs` must be a list of at least one run")
    return group_runs(
        [RunResult.from_json(run, f"{source}, run {place}") for place, run in enumerate(runs, 1)]
    )


def group_runs(runs: Iterable[RunResult]) -> list[Group]:
    """Group runs by strategy, in their order."""
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(run.strategy, []).append(run)
    return [Group(strategy, found) for strategy, found in groups.items()]


def headline(groups: Sequence[Group]) -> str:
    """Name the metric that decides: that of a reader, of relevant targets, or of answers."""
    order = ("exact_match", "recall@10", "answer_recall@10")
    return next((name for name in order if any(g.metric(name) for g in groups)), "recall@10")


def ranked(groups: Sequence[Group]) -> list[Group]:
    """Sort the groups by the metric that decides, best first."""
    metric = headline(groups)
    return sorted(groups, key=lambda g: -(g.mean(metric) or 0.0))


def corrected_group(groups: Sequence[Group]) -> Group | None:
    """Find the paper's method among the runs, or else the best strategy that corrects its cache."""
    found = [g for g in ranked(groups) if g.readings("overlap_corrected")]
    return next((g for g in groups if g.strategy == "corrected"), found[0] if found else None)


def spoken(metric: str) -> str:
    """Write a metric's name as one says it: `exact match`."""
    return metric.replace("_", " ")


def _with_start(run: RunResult) -> Sequence[JsonObject]:
    """Return a run's curve from step 0 on: a run measures its start apart."""
    if not run.curve or not run.initial_metrics or run.curve[0].get("step") == 0:
        return run.curve
    trained = {f"train_{name}": value for name, value in (run.initial_train_metrics or {}).items()}
    return [{"step": 0, "seconds": 0.0, **run.initial_metrics, **trained}, *run.curve]


def _by_step(records: Iterable[Iterable[JsonObject]], name: str) -> list[tuple[float, list[float]]]:
    """Collect the values of all seeds by their step, in order."""
    found: dict[float, list[float]] = {}
    for record in chain.from_iterable(records):
        step, value = number(record.get("step")), number(record.get(name))
        if step is not None and value is not None:
            found.setdefault(step, []).append(value)
    return sorted(found.items())
