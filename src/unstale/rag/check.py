"""Refuse a run of Algorithm 2 that cannot work, before any long work."""

from collections.abc import Callable
from dataclasses import replace

from sentence_transformers import SentenceTransformer

from unstale.buffer.fingerprint import fingerprint
from unstale.encoders.embed import is_cosine
from unstale.errors import InputError
from unstale.miners.strategy import Strategy, find_strategy, strategies
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader, reader_input
from unstale.rag.settings import RagSettings, check_reading
from unstale.strategies import READER_ONLY, NegativeCounts
from unstale.training.settings import Checked, check_buffer, check_mining, chosen_rate


def rag_strategies() -> dict[str, Strategy]:
    """Return what retrieves, by the names that `unstale rag` has for it.

    `none` does not retrieve, and `frozen` trains the reader alone.
    """
    alone = {name: find_strategy(traits.name) for name, (traits, _) in READER_ONLY.items()}
    return alone | {name: s for name, s in strategies().items() if s.rag}


def find_rag_strategy(name: str) -> Strategy:
    """Return what retrieves in a strategy, or list those there are."""
    known = rag_strategies()
    if name not in known:
        raise InputError(f"unknown strategy {name!r}; choose from {', '.join(known)}")
    return known[name]


def check_rag(
    settings: RagSettings,
    questions: QuestionSet,
    retriever: SentenceTransformer,
    reader: Reader,
    known: Checked[RagSettings] | None = None,
) -> Checked[RagSettings]:
    """Check the settings of Algorithm 2 against each other, the data and the models."""
    strategy = find_rag_strategy(settings.strategy)
    check_questions(settings, questions)
    batch_size, targets = _batch_size(settings), len(questions.dataset.targets)
    check_mining(settings, strategy, retriever, batch_size)
    k = settings.k or (8 if retriever.device.type == "cpu" else 32)
    if k > targets:
        raise InputError(f"--k must be from 1 to the corpus's {targets} targets, got {k}")
    settings.filters.check(k)
    check_reading(replace(settings, k=k))
    limits = (
        ("--reader-max-length", reader.max_length, 2),
        ("--answer-length", reader.answer_length, 1),
    )
    for name, value, least in limits:
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
    if settings.fusion == "fid" and not reader.fuses:
        raise InputError("--fusion fid needs a reader with an encoder: use --fusion marginal")
    check_lengths(questions, reader, settings.eval_split)
    made_by = known.made_by if known else fingerprint(retriever, questions.dataset.targets)
    check_buffer(settings, made_by)
    return Checked(
        settings=settings,
        strategy=strategy,
        counts=NegativeCounts(k if strategy.caches else 0, uniform=0),
        batch_size=batch_size,
        learning_rate=chosen_rate(settings, retriever),
        scale=settings.scale or (20.0 if is_cosine(retriever) else 1.0),
        made_by=made_by,
    )


def check_questions(settings: RagSettings, questions: QuestionSet) -> None:
    """Check the settings against the data alone, before any model is loaded."""
    train, targets = questions.rows("train"), len(questions.dataset.targets)
    questions.rows(settings.eval_split)
    if len(train) < (size := _batch_size(settings)):
        rule = f"a batch of {size} needs at least {size} training questions"
        raise InputError(
            f"{rule}; {questions.dataset.name} has {len(train)}: use a smaller --batch-size"
        )
    if settings.k and settings.k > targets:
        raise InputError(f"--k must be from 1 to the corpus's {targets} targets, got {settings.k}")


def _batch_size(settings: RagSettings) -> int:
    return settings.batch_size or RagSettings.batch_size or 1


def check_lengths(questions: QuestionSet, reader: Reader, eval_split: str) -> None:
    """Refuse answers that the reader could never write, and inputs that do not fit into it."""
    dataset = questions.dataset
    rows = questions.rows("train").tolist()
    answers = [(row, answer) for row in rows for answer in questions.answers[row]]
    lengths = _counts(reader.answer_tokens, [answer for _, answer in answers])
    if (longest := max(lengths)) > reader.answer_length:
        row, answer = answers[lengths.index(longest)]
        above = sum(n > reader.answer_length for n in lengths)
        raise InputError(
            f"{dataset.name}: {above} answers have more than {reader.answer_length} tokens, the "
            f"longest {longest}: question {dataset.query_ids[row]!r}, {answer[:80]!r}; "
            "raise --answer-length or shorten them"
        )
    if (most := reader.most_positions) is None:
        return
    rows = [*rows, *questions.rows(eval_split).tolist()]
    asked = [reader_input(text, "").question for text in dataset.queries.take(rows)]
    lengths = _counts(lambda texts: reader.tokenizer(texts)["input_ids"], asked)
    if reader.positions(longest := max(lengths)) > most:
        id = dataset.query_ids[rows[lengths.index(longest)]]
        limits = f"targets of {reader.max_length} and answers of {reader.answer_length} do not fit"
        raise InputError(
            f"{dataset.name}: question {id!r} has {longest} tokens, and the reader {most} "
            f"positions: {limits}; lower --reader-max-length"
        )


def _counts(tokenise: Callable[[list[str]], list[list[int]]], texts: list[str]) -> list[int]:
    chunks = (texts[start : start + 4096] for start in range(0, len(texts), 4096))
    return [len(tokens) for chunk in chunks for tokens in tokenise(chunk)]
