"""Refuse what cannot work, before any long work."""

from pathlib import Path
from typing import Any, get_args

from sentence_transformers import SentenceTransformer

from unstale.errors import InputError
from unstale.miners.schedule import Schedule
from unstale.rag.algorithm2 import Fusion
from unstale.rag.losses import Likelihood
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader, reader_input
from unstale.training.recipe import Sampling
from unstale.training.settings import (
    check_buffer,
    check_devices,
    check_precision,
    check_processes,
)

# What retrieves in each; `none` does not retrieve, `frozen` trains the reader alone.
STRATEGIES = {
    "none": "in-batch",
    "frozen": "stale",
    "stale": "stale",
    "corrected": "corrected",
    "exhaustive": "exhaustive",
    "two-round": "two-round",
}


def find_rag_strategy(name: str) -> str:
    """Return what retrieves in a strategy, or list those there are."""
    if name not in STRATEGIES:
        raise InputError(f"unknown strategy {name!r}; choose from {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def check_rag_settings(
    questions: QuestionSet,
    retriever: SentenceTransformer,
    reader: Reader,
    *,
    strategy: str,
    steps: int,
    batch_size: int,
    k: int,
    fusion: str,
    likelihood: str,
    sampling: str,
    rates: tuple[float | None, ...],
    scale: float | None,
    corrector_hidden: tuple[int, ...],
    corrector_weight: float,
    corrector_anchor: float,
    memory: bool,
    refresh: str | int,
    eval_split: str,
    eval_questions: int,
    keep_checkpoints: int,
    probe_queries: int,
    probe_targets: int,
    buffer: Path | None,
    dtype: str = "float32",
    trainer: dict[str, Any] | None = None,
) -> None:
    """Check the arguments of `train_rag` against each other and against the data."""
    miner = find_rag_strategy(strategy)
    check_processes(miner, batch_size)
    train = questions.rows("train")
    questions.rows(eval_split)
    if steps < 1 or batch_size < 1:
        raise InputError(f"steps and batch size must be at least 1, not {steps} and {batch_size}")
    if len(train) < batch_size:
        have = f"there are {len(train)}"
        raise InputError(f"a batch of {batch_size} needs as many training questions; {have}")
    targets = len(questions.dataset.targets)
    if not 1 <= k <= targets:
        raise InputError(f"k must be from 1 to the corpus's {targets} targets, not {k}")
    for name, choice, choices in (
        ("fusion", fusion, get_args(Fusion)),
        ("likelihood", likelihood, get_args(Likelihood)),
        ("sampling", sampling, get_args(Sampling)),
    ):
        if choice not in choices:
            raise InputError(f"{name} must be one of {', '.join(choices)}, not {choice!r}")
    for name, positive in (("scale", scale), *(("learning rate", rate) for rate in rates)):
        if positive is not None and positive <= 0:
            raise InputError(f"expected {name} > 0, not {positive}")
    least = {
        "corrector weight": (corrector_weight, 0),
        "corrector anchor": (corrector_anchor, 0),
        "eval questions": (eval_questions, 0),
        "kept checkpoints": (keep_checkpoints, 1),
        "probe queries": (probe_queries, 1),
        "probe targets": (probe_targets, 1),
        "reader's max length": (reader.max_length, 2),
        "answer length": (reader.answer_length, 1),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise InputError(f"expected {name} >= {bound}, not {value}")
    if any(width < 1 for width in corrector_hidden):
        raise InputError(f"hidden layers need widths of at least 1, not {list(corrector_hidden)}")
    if strategy == "corrected" and memory and not corrector_anchor:
        rule = "a memory needs an anchored corrector: residuals of different ages must compare"
        raise InputError(f"{rule}; use --no-memory or --corrector-anchor above 0")
    if isinstance(refresh, str):
        Schedule.parse(refresh)
    elif refresh < 0:
        raise InputError(f"cannot refresh {refresh} times")
    check_lengths(questions, reader, eval_split)
    check_devices(retriever)
    check_precision(retriever, trainer)
    check_buffer(miner, retriever, questions.dataset.targets, buffer, dtype)


def check_lengths(questions: QuestionSet, reader: Reader, eval_split: str) -> None:
    """Refuse answers that the reader could never write, and questions that leave no target."""
    dataset = questions.dataset
    most = getattr(reader.model.config, "max_position_embeddings", None)
    if most is not None and max(reader.max_length, reader.answer_length) > most:
        asked = f"{reader.max_length} and {reader.answer_length}"
        raise InputError(f"the reader has {most} positions: lengths of {asked} do not fit")
    rows = questions.rows("train").tolist()
    answers = [(row, answer) for row in rows for answer in questions.answers[row]]
    lengths = _token_counts(reader, [answer for _, answer in answers], answers=True)
    longest = max(range(len(answers)), key=lengths.__getitem__)
    if lengths[longest] > reader.answer_length:
        row, answer = answers[longest]
        above = sum(n > reader.answer_length for n in lengths)
        raise InputError(
            f"{dataset.name}: {above} answers have more than {reader.answer_length} tokens, the "
            f"longest {lengths[longest]}: question {dataset.query_ids[row]!r}, {answer[:80]!r}; "
            "raise --answer-length or shorten them"
        )
    rows = [*rows, *questions.rows(eval_split).tolist()]
    inputs = [reader_input(text, "") for text in dataset.queries.take(rows)]
    lengths = _token_counts(reader, inputs)
    longest = max(range(len(rows)), key=lengths.__getitem__)
    if lengths[longest] >= reader.max_length:
        where = f"question {dataset.query_ids[rows[longest]]!r} has {lengths[longest]} tokens"
        rule = f"the reader sees {reader.max_length} of question and target together"
        raise InputError(f"{dataset.name}: {where}; {rule}, raise --reader-max-length")


def _token_counts(reader: Reader, texts: list[str], *, answers: bool = False) -> list[int]:
    counts: list[int] = []
    for start in range(0, len(texts), 4096):
        chunk = texts[start : start + 4096]
        batch = reader.tokenizer(**{"text_target" if answers else "text": chunk})
        counts += [len(ids) for ids in batch["input_ids"]]
    return counts
