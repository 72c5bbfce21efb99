"""What results.json says, checked and grouped by strategy, for pages and charts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, final

from unstale.errors import InputError

Record = dict[str, Any]


@final
@dataclass(frozen=True)
class Mined:
    """A target in an example: its text, its score, its place in the true ranking if known."""

    row: int
    text: str
    score: float | None
    true_rank: int | None


@final
@dataclass(frozen=True)
class Example:
    """A query with its label, and what each view of the corpus puts nearest to it."""

    query: str
    label: str | None
    true: Sequence[Mined]
    stale: Sequence[Mined]
    corrected: Sequence[Mined]


@final
@dataclass(frozen=True)
class Answer:
    """A question, what a reader said, and what would have been right."""

    question: str
    said: str
    gold: Sequence[str]


@final
@dataclass(frozen=True)
class Entry:
    """One run; what a results.json leaves out is None or empty."""

    strategy: str
    data: str | None  # of a model that was measured on several
    seed: int | None
    steps: int
    split: str
    metrics: dict[str, float]
    initial: dict[str, float]
    reembedded: float | None
    sampled: float | None  # targets encoded to fit something, not to refresh
    seconds: float | None  # from start to finish
    training: float | None  # of those, without embedding at the start and measuring
    steps_per_second: float | None
    freshness: Sequence[Record]
    curve: Sequence[Record]
    examples: Sequence[Example]
    answers: Sequence[Answer]


@final
@dataclass(frozen=True)
class Group:
    """The runs of one strategy, one a seed."""

    strategy: str
    entries: Sequence[Entry]

    @property
    def name(self) -> str:
        """Name the strategy, or the data of a model that was only measured, for a reader."""
        if any(e.steps for e in self.entries):
            return self.strategy
        return self.entries[0].data or "as it is"

    def of(self, value: Callable[[Entry], float | None]) -> list[float]:
        """List a value over the seeds, where it is there."""
        return [v for e in self.entries if (v := value(e)) is not None]

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
        return over_steps(self.entries, lambda e: e.curve, name)


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
    entries: Sequence[Entry], records: Callable[[Entry], Sequence[Record]], name: str
) -> list[tuple[float, list[float]]]:
    """Collect the values of all entries by their step, in order."""
    found: dict[float, list[float]] = {}
    for entry in entries:
        for record in records(entry):
            step, value = number(record.get("step")), number(record.get(name))
            if step is not None and value is not None:
                found.setdefault(step, []).append(value)
    return sorted(found.items())


def number(value: object) -> float | None:
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON's integers have no limit, floats do
        return None


def group_runs(results: Record, source: object) -> list[Group]:
    """Group the runs by strategy, in their order; `source` names the file in errors."""
    runs = results.get("runs")
    if not isinstance(runs, list) or not runs:
        raise InputError(f"{source}: `runs` must be a list of at least one run")
    groups: dict[str, list[Entry]] = {}
    for place, run in enumerate(runs, 1):
        entry = _entry(run, f"{source}, run {place}")
        groups.setdefault(entry.strategy, []).append(entry)
    return [Group(strategy, entries) for strategy, entries in groups.items()]


def _entry(run: object, where: str) -> Entry:
    if not isinstance(run, dict):
        raise InputError(f"{where}: must be an object, got {_short(run)}")
    if not isinstance(strategy := run.get("strategy"), str):
        raise InputError(f"{where}: `strategy` must be a string, got {_short(strategy)}")
    seconds = run["seconds"] if isinstance(run.get("seconds"), dict) else {}
    data = run["data"] if isinstance(run.get("data"), dict) else {}
    total, training = number(seconds.get("total")), number(seconds.get("training"))
    seed = number(run.get("seed"))
    initial = _metrics(run.get("initial_metrics", {}), f"{where}: `initial_metrics`")
    curve = _records(run.get("curve"), f"{where}: `curve`")
    if curve and initial and curve[0].get("step") != 0:  # a run measures its start apart
        curve = [{"step": 0, "seconds": 0.0, **initial}, *curve]
    return Entry(
        strategy=strategy,
        data=str(data["name"]) if "name" in data else None,
        seed=None if seed is None else int(seed),
        steps=int(number(run.get("steps")) or 0),
        split=str(run.get("split", "test")),
        metrics=_metrics(run.get("metrics"), f"{where}: `metrics`"),
        initial=initial,
        reembedded=number(run.get("targets_reembedded")),
        sampled=number(run.get("targets_sampled")),
        seconds=total,
        training=total if training is None else training,
        steps_per_second=number(run.get("steps_per_second")),
        freshness=_records(run.get("freshness"), f"{where}: `freshness`"),
        curve=curve,
        examples=[
            _example(e, f"{where}: `examples`, number {i}")
            for i, e in enumerate(_records(run.get("examples"), f"{where}: `examples`"), 1)
        ],
        answers=[
            _answer(a, f"{where}: `answers`, number {i}")
            for i, a in enumerate(_records(run.get("answers"), f"{where}: `answers`"), 1)
        ],
    )


def _metrics(value: object, where: str) -> dict[str, float]:
    if not isinstance(value, dict):
        raise InputError(f"{where} must be an object of numbers, got {_short(value)}")
    numbers = {str(name): number(v) for name, v in value.items()}
    for name, v in numbers.items():
        if v is None:
            raise InputError(f"{where} must be numbers, got {_short(value[name])} for {name!r}")
    return {name: v for name, v in numbers.items() if v is not None}


def _records(value: object, where: str) -> list[Record]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise InputError(f"{where} must be a list of objects, got {_short(value)}")
    return value


def _answer(value: Record, where: str) -> Answer:
    gold = value.get("gold")
    if not isinstance(gold, list):
        raise InputError(f"{where}: `gold` must be a list of texts, got {_short(gold)}")
    return Answer(
        question=_text(value.get("question"), f"{where}: `question`"),
        said=_text(value.get("answer"), f"{where}: `answer`"),
        gold=[_text(text, f"{where}: `gold`") for text in gold],
    )


def _example(value: Record, where: str) -> Example:
    label = value.get("label")
    return Example(
        query=_text(value.get("query"), f"{where}: `query`"),
        label=_text(label.get("text"), f"{where}: `label`") if isinstance(label, dict) else None,
        true=_mined(value, "true", where),
        stale=_mined(value, "stale", where),
        corrected=_mined(value, "corrected", where),
    )


def _mined(value: Record, name: str, where: str) -> list[Mined]:
    found = []
    for record in _records(value.get(name), f"{where}: `{name}`"):
        row, rank = number(record.get("row")), number(record.get("true_rank"))
        if row is None:
            raise InputError(f"{where}: `{name}` needs rows, got {_short(record.get('row'))}")
        text = _text(record.get("text"), f"{where}: `{name}`")
        score = number(record.get("score"))
        found.append(Mined(int(row), text, score, None if rank is None else int(rank)))
    return found


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} must have a text, got {_short(value)}")
    return value


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
