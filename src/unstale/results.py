"""What did a run find and cost? One entry of results.json: made by a job, checked when read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from reprlib import repr as short
from types import NoneType
from typing import Any, TypeVar, final, get_args, get_origin

from unstale.budget import read_object
from unstale.errors import InputError
from unstale.files import write_json

CORRECTOR = "corrector.safetensors"  # in a run folder: its corrector, if it has one
RESULTS = "results.json"
JsonObject = dict[str, Any]
V = TypeVar("V")


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
class FoundQuery:
    """A query of the split measured: the first target found, and where the labelled one stands."""

    query: str
    first: str
    label_rank: int | None = None  # None: not among the best 100


@final
@dataclass(frozen=True)
class AnsweredQuestion:
    """A question, what a reader answered, and the answers that would have been right.

    Where known, also what it answered before training, and the first targets that it read.
    """

    question: str
    answer: str
    gold: Sequence[str]
    before: str | None = None
    read: Sequence[str] | None = None


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
    identity: Mapping[str, str] | None = None  # of data, models and settings
    epochs: float | None = None  # that the steps are
    batch_size: int | None = None
    shape: Mapping[str, int] | None = None  # of the encoder: layers, query_tokens, target_tokens
    split: str = "test"
    # Before training, of the model as it was named: with all its layers and its own lengths.
    full_metrics: Mapping[str, float] | None = None
    initial_metrics: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float]
    initial_train_metrics: Mapping[str, float] | None = None  # the same on training queries
    train_metrics: Mapping[str, float] | None = None
    processes: int | None = None
    negatives: Mapping[str, int] | None = None  # of each query: hard, uniform
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
    losses: Sequence[JsonObject] | None = None  # step, and the mean loss up to it
    examples: Sequence[ExampleQuery] = field(default_factory=list)
    found: Sequence[FoundQuery] | None = None  # what the trained model finds
    # What was measured on dev, and of which steps the weights are. The retriever's step is 0 if
    # training made it worse, and it was left as it started.
    dev: Sequence[JsonObject] | None = None
    reader_step: int | None = None
    retriever_step: int | None = None
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
        result: RunResult = _read(cls, value, where)
        return result


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
    results = read_object(path)
    if not isinstance(results.get("runs"), list):
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


def _read(kind: Any, value: object, where: str) -> Any:  # noqa: ANN401 - of the given type
    """Read a JSON value as a type; None for what should be a number and is none."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in (int, float):
        found = number(value)
        return None if found is None else kind(found)
    if NoneType in inner:
        return None if value is None else _read(inner[0], value, where)
    if kind is str:
        return _checked(str, value, f"{where} must be a string")
    if origin is Sequence:
        items = enumerate(_checked(list, value, f"{where} must be a list"), 1)
        read = [_read(inner[0], item, f"{where}, number {i}") for i, item in items]
        return [item for item in read if item is not None]
    entries = _checked(dict, value, f"{where} must be an object")
    if is_dataclass(kind):
        return _read_fields(kind, entries, where)
    if origin is Mapping:
        named = {str(key): _read(inner[1], v, where) for key, v in entries.items()}
        return {key: v for key, v in named.items() if v is not None}
    return entries


def _read_fields(kind: Any, entries: JsonObject, where: str) -> Any:  # noqa: ANN401
    values: JsonObject = {}
    for f in fields(kind):
        found: Any = entries.get(f.name)
        place = f"{where}: `{f.name}`"
        optional = f.default is not MISSING or f.default_factory is not MISSING
        if found is None and optional:
            continue
        read = _read(f.type, found, place)
        if f.name.endswith("metrics"):
            for name in found.keys() - read.keys():
                raise InputError(f"{place} must be numbers, got {short(found[name])} for {name!r}")
        if read is not None or NoneType in get_args(f.type):
            values[f.name] = read
        elif not optional:
            raise InputError(f"{place} must be a number, got {short(found)}")
    return kind(**values)


def _checked(kind: type[V], value: object, rule: str) -> V:
    if not isinstance(value, kind):
        raise InputError(f"{rule}, got {short(value)}")
    return value


# Keys that are written as null where they have no value, and keys of a trained run only.
_NULLABLE = {"seed", "search", "steps_per_second"}
_TRAINED = {"search", "candidates_dropped", "searched", "curve", "examples"}
