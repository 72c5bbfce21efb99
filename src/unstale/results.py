"""What did a run find and cost? One entry of results.json: made by a job, checked when read."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from reprlib import repr as short
from typing import Any, final

from unstale.errors import InputError
from unstale.files import write_json

RESULTS = "results.json"
JsonObject = dict[str, Any]


@final
@dataclass(frozen=True)
class ListedTarget:
    """A target in an example: its text, its score, its place in the true ranking if known."""

    row: int
    text: str
    score: float | None = None
    true_rank: int | None = None


@final
@dataclass(frozen=True)
class ExampleQuery:
    """A query with its label, and what each view of the corpus puts nearest to it."""

    query: str
    label: ListedTarget | None
    true: Sequence[ListedTarget]
    stale: Sequence[ListedTarget]
    corrected: Sequence[ListedTarget]


@final
@dataclass(frozen=True)
class AnsweredQuestion:
    """A question, what a reader answered, and the answers that would have been right."""

    question: str
    answer: str
    gold: Sequence[str]


@final
@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One entry of `runs` in results.json.

    None stands for what a run does not have: only one with a reader has answers, say.
    """

    strategy: str
    model: str | None = None  # that was only measured
    seed: int | None = None
    steps: int = 0  # 0: not trained, only measured
    batch_size: int | None = None
    split: str = "test"
    initial_metrics: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float]
    initial_train_metrics: Mapping[str, float] | None = None  # the same on training queries
    train_metrics: Mapping[str, float] | None = None
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
    freshness: Sequence[JsonObject] = field(default_factory=list)
    # At the end, over the whole corpus: the share of the true top 10 that the cache as it is
    # (`stale`) and as it was searched (`searched`) held for training queries, and for those of the
    # split (`eval_stale`, `eval_searched`).
    overlap: Mapping[str, float] | None = None
    corrector_worse_at: Sequence[int] | None = None  # steps
    searched: Sequence[JsonObject] = field(default_factory=list)
    curve: Sequence[JsonObject] = field(default_factory=list)
    examples: Sequence[ExampleQuery] = field(default_factory=list)
    answers: Sequence[AnsweredQuestion] | None = None

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

    def trained(self, metric: str) -> float | None:
        """Return a metric on training queries at the end, if known: how far a run memorised."""
        return (self.train_metrics or {}).get(metric)

    def held(self, view: str) -> float | None:
        """Return the share of the true top 10 that a view held at the end: stale or corrected."""
        readings = [r for r in self.freshness if number(r.get("step")) is not None]
        return number(readings[-1].get(f"overlap_{view}")) if readings else None

    def to_json(self) -> JsonObject:
        """Return the object that results.json holds, without the keys that do not apply."""

        def known(items: list[tuple[str, Any]]) -> JsonObject:
            return {k: v for k, v in items if v is not None or k in _NULLABLE}

        left_out = set() if self.steps else _TRAINED
        values = asdict(self, dict_factory=known)
        return {key: value for key, value in values.items() if key not in left_out}

    @classmethod
    def from_json(cls, value: object, where: str) -> "RunResult":
        """Check an entry that may have been edited by hand; `where` names file and run in errors.

        What should be a number and is none counts as absent.
        """
        if not isinstance(value, dict):
            raise InputError(f"{where}: must be an object, got {short(value)}")
        values: JsonObject = {}
        for f in fields(cls):
            found, read = value.get(f.name), _BY_NAME.get(f.name) or _BY_TYPE[f.type]
            if found is not None or f.name in ("strategy", "metrics"):  # the others have defaults
                values[f.name] = read(found, f"{where}: `{f.name}`")
        return cls(**values)


def write_results(
    folder: Path, data: Mapping[str, Any], runs: Sequence[RunResult], **more: Mapping[str, Any]
) -> None:
    """Write `{"data": counts, "runs": [...]}`, one entry a run, and what there is beside them.

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


def _steps(values: object) -> list[int]:
    found = values if isinstance(values, list) else []
    return [step for value in found if (step := _count(value)) is not None]


def _metrics(value: object, where: str) -> dict[str, float]:
    if not isinstance(value, dict):
        raise InputError(f"{where} must be an object of numbers, got {short(value)}")
    for name, v in value.items():
        if number(v) is None:
            raise InputError(f"{where} must be numbers, got {short(v)} for {name!r}")
    return _finite(value)


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} must be a string, got {short(value)}")
    return value


def _objects(value: object, where: str) -> list[JsonObject]:
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise InputError(f"{where} must be a list of objects, got {short(value)}")
    return value


def _each(read: Callable[[JsonObject, str], Any]) -> Callable[[object, str], list[Any]]:
    return lambda values, where: [
        read(value, f"{where}, number {i}") for i, value in enumerate(_objects(values, where), 1)
    ]


def _example(value: JsonObject, where: str) -> ExampleQuery:
    views = {}
    for view in ("true", "stale", "corrected"):
        place = f"{where}: `{view}`"
        views[view] = [_target(target, place) for target in _objects(value.get(view) or [], place)]
    query, label = _string(value.get("query"), f"{where}: `query`"), value.get("label")
    known = _target(label, f"{where}: `label`") if isinstance(label, dict) else None
    return ExampleQuery(query, known, **views)


def _target(value: JsonObject, where: str) -> ListedTarget:
    if (row := _count(value.get("row"))) is None:
        raise InputError(f"{where} needs rows, got {short(value.get('row'))}")
    text = _string(value.get("text"), f"{where}: `text`")
    return ListedTarget(row, text, number(value.get("score")), _count(value.get("true_rank")))


def _answer(value: JsonObject, where: str) -> AnsweredQuestion:
    if not isinstance(gold := value.get("gold"), list):
        raise InputError(f"{where}: `gold` must be a list of texts, got {short(gold)}")
    question, answer = (_string(value.get(k), f"{where}: `{k}`") for k in ("question", "answer"))
    return AnsweredQuestion(question, answer, [_string(text, f"{where}: `gold`") for text in gold])


# Keys that are written as null where they have no value, and keys of a trained run only.
_NULLABLE = {"seed", "search", "steps_per_second"}
_TRAINED = {"search", "candidates_dropped", "searched", "curve", "examples"}
# How a field's value is read: by its name, or else by its type.
_BY_NAME = {"metrics": _metrics, "initial_metrics": _metrics}
_BY_TYPE: dict[object, Callable[[Any, str], Any]] = {
    str: _string,
    str | None: lambda value, _: value if isinstance(value, str) else None,
    int: lambda value, _: _count(value) or 0,
    int | None: lambda value, _: _count(value),
    float | None: lambda value, _: number(value),
    Mapping[str, float]: lambda value, _: _finite(value),
    Mapping[str, float] | None: lambda value, _: _finite(value),
    Mapping[str, int]: lambda value, _: _counts(value),
    Mapping[str, int] | None: lambda value, _: _counts(value),
    Mapping[str, Any] | None: lambda value, _: value if isinstance(value, dict) else None,
    Sequence[int] | None: lambda value, _: _steps(value),
    Sequence[JsonObject]: _objects,
    Sequence[ExampleQuery]: _each(_example),
    Sequence[AnsweredQuestion] | None: _each(_answer),
}
