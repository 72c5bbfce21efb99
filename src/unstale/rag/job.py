"""One run of Algorithm 2, from questions to a retriever, a reader and their results."""

from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments

from unstale import distributed
from unstale.declare import changed
from unstale.files import atomic_folder, write_json
from unstale.rag.algorithm2 import RetrieverReaderLoss
from unstale.rag.check import check_rag
from unstale.rag.evaluator import RagEvaluator
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader
from unstale.rag.settings import RagSettings
from unstale.rag.trainer import RagTrainer
from unstale.results import AnsweredQuestion, RunResult
from unstale.training.callbacks import watch_steps
from unstale.training.checkpoints import train_or_resume
from unstale.training.finish import save_weights, shared_results
from unstale.training.prepare import Prepared, prepare
from unstale.training.settings import Checked
from unstale.training.trainer import trainer_arguments

ANSWERING = "answering.json"  # how a run answers: k, fusion, scale, limits
_SHOWN = 8  # answers that the report shows


def train_rag(
    questions: QuestionSet,
    retriever: SentenceTransformer,
    reader: Reader,
    output: Path | str,
    settings: RagSettings = RagSettings(),
    *,
    resume: bool = False,
    progress: bool = True,
    **changes: Any,  # noqa: ANN401 - settings by name
) -> RunResult:
    """Train retriever and reader in place, write `output/model` and `output/reader`.

    Args:
        questions: Questions with answers (split `train`) and a corpus.
        retriever: The encoders, at their start.
        reader: The reader, at its start.
        output: The run folder.
        settings: The settings of the run.
        resume: Resume from the last checkpoint in `output/checkpoints`.
        progress: Show progress bars.
        changes: Settings by name, which replace those in `settings`.
    """
    checked = check_rag(changed(settings, changes), questions, retriever, reader)
    return train_rag_checked(
        questions, retriever, reader, Path(output), checked, resume=resume, progress=progress
    )


def train_rag_checked(
    questions: QuestionSet,
    retriever: SentenceTransformer,
    reader: Reader,
    output: Path,
    checked: Checked[RagSettings],
    *,
    resume: bool = False,
    progress: bool = True,
) -> RunResult:
    """Train with settings that were checked: prepare, train, save, measure."""
    settings, progress = checked.settings, progress and distributed.rank() == 0
    if settings.strategy in ("none", "frozen"):
        retriever.requires_grad_(False)
    dataset, rows = questions.dataset, questions.rows("train")
    trained = np.stack([rows, np.full_like(rows, -1)], axis=1)  # gold targets are not looked at
    prepared = prepare(
        retriever, dataset, checked, output, trained, progress=progress, reader=reader.weights
    )
    evaluator = RagEvaluator(questions, prepared.tokens, reader, checked, progress=progress)
    evaluate = prepared.clock.timed("evaluation", evaluator)
    corpus = prepared.buffer.chunks(16_384) if prepared.buffer else None  # it is the corpus now
    initial = evaluate(retriever, corpus, read=False)

    algorithm = _make_algorithm(questions, retriever, reader, checked, prepared)
    arguments = trainer_arguments(
        output, settings, checked.batch_size, settings.reader_lr or reader.usual_lr,
        retriever.device, progress=progress,
    )  # fmt: skip
    trainer = RagTrainer(
        algorithm,
        TrainingArguments(**arguments | settings.trainer),
        Dataset.from_dict({"question": rows}),
        retriever_lr=checked.learning_rate,
        corrector_lr=settings.corrector_lr,
        keep_checkpoints=settings.keep_checkpoints,
    )
    watch_steps(trainer, algorithm, prepared.meter, settings, evaluate)
    train_or_resume(trainer, dataset, output, resume=resume)
    if distributed.rank() == 0:
        save_weights(output, retriever, algorithm.miner)
        _save_reader(output, algorithm)
    metrics = evaluate(retriever)
    if distributed.rank() == 0:
        evaluator.save(output)
    return _results(checked, prepared, algorithm, evaluator, initial, metrics)


def _make_algorithm(
    questions: QuestionSet,
    retriever: SentenceTransformer,
    reader: Reader,
    checked: Checked[RagSettings],
    prepared: Prepared,
) -> RetrieverReaderLoss:
    settings = checked.settings
    algorithm = RetrieverReaderLoss(
        retriever,
        reader,
        prepared.negatives.miner,
        prepared.tokens,
        questions,
        scale=checked.scale,
        k=checked.counts.hard,
        fusion=settings.fusion,
        corrector_weight=settings.corrector_weight,
        frozen=settings.strategy in ("none", "frozen"),
        seed=settings.seed,
    )
    algorithm.record.identity = prepared.identity
    algorithm.record.clock = prepared.clock
    return algorithm


def _save_reader(output: Path, trained: RetrieverReaderLoss) -> None:
    """Write the reader, and how it answers."""
    reader = trained.reader
    with atomic_folder(output / "reader") as folder:
        reader.save(folder)
    limits = {"max_length": reader.max_length, "answer_length": reader.answer_length}
    how = {"k": trained.k, "fusion": trained.fusion, "scale": trained.scale}
    write_json(output / ANSWERING, how | limits)


def _results(
    checked: Checked[RagSettings],
    prepared: Prepared,
    trained: RetrieverReaderLoss,
    evaluator: RagEvaluator,
    initial: dict[str, float],
    metrics: dict[str, float],
) -> RunResult:
    parts = trained.record.parts
    shared = shared_results(checked, prepared, trained.record)
    shared["seconds"] |= {
        f"{part}_forward": parts.get(f"{part}_seconds", 0.0) for part in ("retriever", "reader")
    }
    every = max(1, len(evaluator.answers) // _SHOWN)
    return RunResult(
        **shared,
        initial_metrics=initial,
        metrics=metrics,
        gold_questions=evaluator.gold,
        reader_inputs=int(parts.get("reader_inputs", 0)),
        reader_truncated=int(parts.get("reader_truncated", 0)),
        answers=[AnsweredQuestion(**answer) for answer in evaluator.answers[::every][:_SHOWN]],
    )
