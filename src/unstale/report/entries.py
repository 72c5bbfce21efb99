"""What results.json says, checked and grouped by strategy, for pages and charts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import final

from unstale.errors import InputError
from unstale.results import Record, RunResult, number


@final
@dataclass(frozen=True)
class Group:
    """The runs of one strategy, one a seed."""

    strategy: str
    entries: Sequence[RunResult]

    @property
    def name(self) -> str:
        """Name the strategy, or the data of a model that was only measured, for a reader."""
        if any(e.steps for e in self.entries):
            return self.strategy
        return str((self.entries[0].data or {}).get("name", "as it is"))

    def of(self, value: Callable[[RunResult], float | int | None]) -> list[float]:
        """List a value over the seeds, where it is there."""
        return [float(v) for e in self.entries if (v := value(e)) is not None]

    def metric(self, name: str) -> list[float]:
        """List a metric over the seeds."""
        return self.of(lambda e: e.metrics.get(name))

    def mean(self, name: str) -> float | None:
        """Average a metric over the seeds."""
        return average(self.metric(name))

    def readings(self, name: str) -> list[tuple[float, list[float]]]:
        """Return `(step, values over the seeds)` of a freshness reading."""
        return over_steps(self.entries, lambda e: e.freshness, name)

    def curve(self, name: str) -> list[tuple[float, list[float]]]:
        """Return `(step, values over the seeds)` of what was measured during the run."""
        return over_steps(self.entries, _with_start, name)


def _with_start(entry: RunResult) -> Sequence[Record]:
    """Return a run's curve from step 0 on: a run measures its start apart."""
    curve, initial = entry.curve, entry.initial_metrics
    if not curve or not initial or curve[0].get("step") == 0:
        return curve
    return [{"step": 0, "seconds": 0.0, **initial}, *curve]


def headline(groups: Sequence[Group]) -> str:
    """Name the metric that decides: that of answers, where there are any."""
    return "exact_match" if any(g.metric("exact_match") for g in groups) else "recall@10"


def spoken(metric: str) -> str:
    """Write a metric's name as one says it.

    Example:
        >>> spoken("exact_match")
        'exact match'
    """
    return metric.replace("_", " ")


def average(values: Sequence[float]) -> float | None:
    """Average, or None of nothing."""
    return fmean(values) if values else None


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation over seeds, or None of fewer than two."""
    return stdev(values) if len(values) > 1 else None


def over_steps(
    entries: Sequence[RunResult], records: Callable[[RunResult], Sequence[Record]], name: str
) -> list[tuple[float, list[float]]]:
    """Collect the values of all entries by their step, in order."""
    found: dict[float, list[float]] = {}
    for entry in entries:
        for record in records(entry):
            step, value = number(record.get("step")), number(record.get(name))
            if step is not None and value is not None:
                found.setdefault(step, []).append(value)
    return sorted(found.items())


def group_runs(results: Record, source: object) -> list[Group]:
    """Group the runs by strategy, in their order; `source` names the file in errors."""
    runs = results.get("runs")
    if not isinstance(runs, list) or not runs:
        raise InputError(f"{source}: `runs` must be a list of at least one run")
    groups: dict[str, list[RunResult]] = {}
    for place, run in enumerate(runs, 1):
        entry = RunResult.from_json(run, f"{source}, run {place}")
        groups.setdefault(entry.strategy, []).append(entry)
    return [Group(strategy, entries) for strategy, entries in groups.items()]
