"""What did a run find and cost? One entry of results.json: made by a job, checked when read."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, final

from unstale.errors import InputError
from unstale.files import write_json

RESULTS = "results.json"
T = TypeVar("T")
Record = dict[str, Any]  # one reading: a step, and the values that were measured there


@final
@dataclass(frozen=True)
class ListedTarget:
    """A target in an example: its text, its score, its place in the true ranking if known."""

    row: int
    text: str
    score: float | None = None
    true_rank: int | None = None

    @classmethod
    def from_json(cls, value: Record, where: str) -> "ListedTarget":
        """Check a target."""
        if (row := _count(value.get("row"))) is None:
            raise InputError(f"{where} needs rows, got {_short(value.get('row'))}")
        text = _text(value.get("text"), where)
        return cls(row, text, number(value.get("score")), _count(value.get("true_rank")))


@final
@dataclass(frozen=True)
class Example:
    """A query with its label, and what each view of the corpus puts nearest to it."""

    query: str
    label: ListedTarget | None
    true: Sequence[ListedTarget]
    stale: Sequence[ListedTarget]
    corrected: Sequence[ListedTarget]

    def to_json(self) -> Record:
        """Return the example without what is not known of a target."""
        return asdict(self, dict_factory=lambda items: {k: v for k, v in items if v is not None})

    @classmethod
    def from_json(cls, value: Record, where: str) -> "Example":
        """Check an example."""
        label = value.get("label")
        views = {
            view: [
                ListedTarget.from_json(target, f"{where}: `{view}`")
                for target in _records(value.get(view), f"{where}: `{view}`")
            ]
            for view in ("true", "stale", "corrected")
        }
        return cls(
            query=_text(value.get("query"), f"{where}: `query`"),
            label=ListedTarget.from_json(label, f"{where}: `label`")
            if isinstance(label, dict)
            else None,
            **views,
        )


@final
@dataclass(frozen=True)
class Answer:
    """A question, what a reader answered, and the answers that would have been right."""

    question: str
    answer: str
    gold: Sequence[str]

    @classmethod
    def from_json(cls, value: Record, where: str) -> "Answer":
        """Check an answer."""
        if not isinstance(gold := value.get("gold"), list):
            raise InputError(f"{where}: `gold` must be a list of texts, got {_short(gold)}")
        return cls(
            question=_text(value.get("question"), f"{where}: `question`"),
            answer=_text(value.get("answer"), f"{where}: `answer`"),
            gold=[_text(text, f"{where}: `gold`") for text in gold],
        )


@final
@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One entry of `runs` in results.json.

    None stands for what a run does not have: only one with a reader has answers, say.
    """

    strategy: str
    model: str | None = None  # that was only measured
    data: Mapping[str, Any] | None = None  # its data, if a model was measured on several
    seed: int | None = None
    steps: int = 0  # 0: not trained, only measured
    batch_size: int | None = None
    split: str = "test"
    initial_metrics: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float]
    processes: int | None = None
    negatives: Mapping[str, int] | None = None  # of each query: hard, uniform, free
    search: str | None = None  # the mode that was used, of a strategy that may search inexactly
    targets_embedded: int | None = None  # at the start
    targets_trained: int | None = None  # with gradients
    targets_reembedded: int | None = None  # to refresh the buffer
    targets_sampled: int | None = None  # to fit something, not to refresh
    targets_probed: int | None = None  # by the freshness meter
    candidates_considered: int | None = None
    candidates_dropped: Mapping[str, int] = field(default_factory=dict)  # by each filter
    negatives_missing: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # by part, and `total`
    steps_per_second: float | None = None
    truncated_targets: int | None = None
    gold_questions: int | None = None
    reader_inputs: int | None = None
    reader_truncated: int | None = None
    freshness: Sequence[Record] = field(default_factory=list)
    corrector_worse_at: Sequence[int] | None = None  # steps
    searched: Sequence[Record] = field(default_factory=list)
    curve: Sequence[Record] = field(default_factory=list)
    examples: Sequence[Example] = field(default_factory=list)
    answers: Sequence[Answer] | None = None

    @property
    def total_seconds(self) -> float | None:
        """Return the seconds from start to finish, if known."""
        return self.seconds.get("total")

    @property
    def training_seconds(self) -> float | None:
        """Return the seconds without embedding at the start and measuring, where they are known."""
        return self.seconds.get("training", self.total_seconds)

    @property
    def seen(self) -> float | None:
        """Return the share of the true top 10 that the searched cache held at the end, if known."""
        corrected = self.held("corrected")
        return self.held("stale") if corrected is None else corrected

    def held(self, view: str) -> float | None:
        """Return the share of the true top 10 that a view held at the end: stale or corrected."""
        readings = [r for r in self.freshness if number(r.get("step")) is not None]
        return number(readings[-1].get(f"overlap_{view}")) if readings else None

    def to_json(self) -> dict[str, Any]:
        """Return the object that results.json holds, without the keys that do not apply."""
        left_out = set() if self.steps else _TRAINED
        values = asdict(self) | {"examples": [example.to_json() for example in self.examples]}
        return {
            key: value
            for key, value in values.items()
            if key not in left_out and (value is not None or key in _NULLABLE)
        }

    @classmethod
    def from_json(cls, value: object, where: str) -> "RunResult":
        """Check an entry that may have been edited by hand; `where` names file and run in errors.

        What should be a number and is none counts as absent.
        """
        if not isinstance(value, dict):
            raise InputError(f"{where}: must be an object, got {_short(value)}")
        if not isinstance(strategy := value.get("strategy"), str):
            raise InputError(f"{where}: `strategy` must be a string, got {_short(strategy)}")
        records = {
            key: _records(value.get(key), f"{where}: `{key}`")
            for key in ("freshness", "searched", "curve", "examples", "answers")
        }
        initial = value.get("initial_metrics", {})
        data, negatives, worse = map(value.get, ("data", "negatives", "corrector_worse_at"))
        return cls(
            strategy=strategy,
            model=value["model"] if isinstance(value.get("model"), str) else None,
            data=data if isinstance(data, dict) else None,
            split=str(value.get("split", "test")),
            steps=_count(value.get("steps")) or 0,
            initial_metrics=_metrics(initial, f"{where}: `initial_metrics`"),
            metrics=_metrics(value.get("metrics"), f"{where}: `metrics`"),
            negatives=_counts(negatives) if isinstance(negatives, dict) else None,
            search=value["search"] if isinstance(value.get("search"), str) else None,
            candidates_dropped=_counts(value.get("candidates_dropped")),
            seconds=_finite(value.get("seconds")),
            steps_per_second=number(value.get("steps_per_second")),
            freshness=records["freshness"],
            corrector_worse_at=_steps(worse) if isinstance(worse, list) else None,
            searched=records["searched"],
            curve=records["curve"],
            examples=_each(Example.from_json, records["examples"], f"{where}: `examples`"),
            answers=_each(Answer.from_json, records["answers"], f"{where}: `answers`")
            if value.get("answers") is not None
            else None,
            **{name: _count(value.get(name)) for name in _COUNTS},
        )


# Keys that are written as null where they have no value, and keys of a trained run only.
_NULLABLE = {"seed", "search", "steps_per_second"}
_TRAINED = set("search candidates_dropped searched curve examples".split())
_COUNTS = [f.name for f in fields(RunResult) if f.type == int | None]


def write_results(
    folder: Path, data: Mapping[str, Any], runs: Sequence[RunResult], **more: Mapping[str, Any]
) -> None:
    """Write `{"data": counts, "runs": [...]}`, one entry a run.

    A comparison adds its `summary`, a model measured on several datasets the `average`.
    """
    results: dict[str, Any] = {"data": dict(data), "runs": [run.to_json() for run in runs]}
    write_json(folder / RESULTS, results | {key: dict(v) for key, v in more.items() if v})


def read_results(folder: Path) -> dict[str, Any]:
    """Read a run folder's results; `RunResult.from_json` checks each of its `runs`."""
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


def number(value: object) -> float | None:
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON's integers have no limit, floats do
        return None


def _count(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _finite(value: object) -> dict[str, float]:
    items = value.items() if isinstance(value, dict) else ()
    return {str(key): found for key, v in items if (found := number(v)) is not None}


def _counts(value: object) -> dict[str, int]:
    return {key: int(found) for key, found in _finite(value).items()}


def _metrics(value: object, where: str) -> dict[str, float]:
    if not isinstance(value, dict):
        raise InputError(f"{where} must be an object of numbers, got {_short(value)}")
    found = _finite(value)
    for name in value:
        if str(name) not in found:
            raise InputError(f"{where} must be numbers, got {_short(value[name])} for {name!r}")
    return found


def _records(value: object, where: str) -> list[Record]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise InputError(f"{where} must be a list of objects, got {_short(value)}")
    return value


def _each(read: Callable[[Record, str], T], records: Sequence[Record], where: str) -> list[T]:
    return [read(record, f"{where}, number {i}") for i, record in enumerate(records, 1)]


def _steps(values: Sequence[object]) -> list[int]:
    return [step for value in values if (step := _count(value)) is not None]


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} must have a text, got {_short(value)}")
    return value


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
