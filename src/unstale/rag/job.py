"""One run of Algorithm 2, from questions to a retriever, a reader and their results."""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from jaxtyping import Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments

from unstale import distributed
from unstale.declare import changed
from unstale.evaluation.retrieve import cached_chunks, retrieve
from unstale.files import atomic_folder, write_json
from unstale.rag.algorithm2 import RetrieverReaderLoss
from unstale.rag.check import check_rag
from unstale.rag.dev import LOOKS, choose_dev, score
from unstale.rag.evaluator import RagEvaluator, Starts
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader
from unstale.rag.settings import RagSettings
from unstale.rag.trainer import RagTrainer
from unstale.results import RunResult
from unstale.training.best import BestByDev, KeptWeights, kept_look
from unstale.training.callbacks import watch_steps
from unstale.training.checkpoints import train_or_resume
from unstale.training.finish import save_corrector, save_model, shared_results
from unstale.training.prepare import Prepared, prepare
from unstale.training.settings import Checked
from unstale.training.trainer import trainer_arguments

_LOG = logging.getLogger(__name__)
ANSWERING = "answering.json"  # how a run answers: k, fusion, scale, limits


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
    wanted = changed(settings, changes)
    questions = questions.hold_out(wanted.eval_split, wanted.holdout, progress=progress)
    checked = check_rag(wanted, questions, retriever, reader)
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
    starts: Starts | None = None,
) -> RunResult:
    """Train with settings that were checked: prepare, train, save, measure.

    Of runs that share `starts` and start alike, the first measures the start.
    """
    settings, progress = checked.settings, progress and distributed.rank() == 0
    if settings.strategy in ("none", "frozen"):
        retriever.requires_grad_(False)
    if settings.reader_lr == 0:
        reader.requires_grad_(False)
    dataset = questions.dataset
    rows, dev = choose_dev(questions, settings, checked.batch_size)
    trained = np.stack([rows, np.full_like(rows, -1)], axis=1)  # gold targets are not looked at
    prepared = prepare(
        retriever, dataset, checked, output, trained,
        filters=settings.filters, progress=progress, reader=reader.weights,
    )  # fmt: skip
    evaluator = RagEvaluator(
        questions, prepared.tokens, reader, checked, dev=dev, progress=progress
    )
    timed = partial(prepared.clock.timed, "evaluation")
    corpus = cached_chunks(prepared.buffer) if prepared.buffer else None  # it is the corpus now
    initial = timed(evaluator.begin)(retriever, corpus, {} if starts is None else starts)
    found_at_start = evaluator.found_in_dev
    start = KeptWeights(output / "start", {"retriever": retriever})
    start.save()

    algorithm = _make_algorithm(questions, retriever, reader, checked, prepared, rows)
    trainer = _make_trainer(algorithm, rows, output, checked, progress=progress)
    steps = watch_steps(trainer, algorithm, prepared.meter, settings, timed(evaluator))
    if len(dev):
        look, every = timed(evaluator.look), settings.steps // LOOKS
        watch = BestByDev(steps, look, trainer.best, every, score, patience=settings.patience)
        trainer.add_callback(watch)
    train_or_resume(trainer, dataset, output, resume=resume)
    if len(dev):
        trainer.best.restore()
    found = timed(evaluator.retrieve)(retriever)
    worse = len(dev) > 0 and evaluator.found_in_dev < found_at_start
    kept_start = distributed.exchange(worse)[0]  # one decides: the last bit may differ
    if kept_start:
        _warn_of_harm(found_at_start, evaluator.found_in_dev)
        start.restore()
        found = timed(evaluator.retrieve)(retriever)
    metrics = timed(evaluator.read)(found)
    save_model(output, retriever)
    save_corrector(output, retriever, algorithm.miner)
    if distributed.rank() == 0:
        _save_reader(output, algorithm)
        evaluator.save(output)
    for kept in (start, trainer.best):
        kept.forget()
    done = trainer.state.global_step  # fewer than asked for if it stopped early
    return _results(checked, prepared, algorithm, evaluator, initial, metrics, kept_start, done)


def _warn_of_harm(start: float, end: float) -> None:
    if distributed.rank() == 0:
        _LOG.warning(
            "THE RETRIEVER GOT WORSE: answers stood higher in what it found for the dev questions "
            "before training (MRR %.3f) than after it (%.3f). The retriever is kept as it started; "
            "the reader is the trained one. Try a smaller --learning-rate, a reader that can read, "
            "or more questions.",
            start, end,
        )  # fmt: skip


def _make_trainer(
    algorithm: RetrieverReaderLoss,
    rows: Int[ndarray, " q"],
    output: Path,
    checked: Checked[RagSettings],
    *,
    progress: bool,
) -> RagTrainer:
    settings, reader = checked.settings, algorithm.reader
    arguments = trainer_arguments(
        output, settings, checked.batch_size,
        reader.usual_lr if settings.reader_lr is None else settings.reader_lr,
        reader.device, progress=progress,
    )  # fmt: skip
    return RagTrainer(
        algorithm,
        TrainingArguments(**arguments | settings.trainer),
        Dataset.from_dict({"question": rows}),
        best=output / "best",
        retriever_lr=checked.learning_rate,
        corrector_lr=settings.corrector_lr,
        keep_checkpoints=settings.keep_checkpoints,
    )


def _make_algorithm(
    questions: QuestionSet,
    retriever: SentenceTransformer,
    reader: Reader,
    checked: Checked[RagSettings],
    prepared: Prepared,
    rows: Int[ndarray, " q"],
) -> RetrieverReaderLoss:
    settings, k = checked.settings, checked.counts.hard
    frozen, start = settings.strategy in ("none", "frozen"), None
    beside = k // 2 if settings.start_targets is None else settings.start_targets
    if beside and prepared.buffer is not None and not frozen:
        corpus = cached_chunks(prepared.buffer)
        found = retrieve(retriever, questions.dataset, rows, corpus, k=k, own=True)
        start = torch.zeros(len(questions.dataset.queries), k, dtype=torch.long)
        start[torch.from_numpy(rows)] = found.rows
        start = start.to(retriever.device)
        distributed.broadcast([start])  # all processes must encode the same targets
    algorithm = RetrieverReaderLoss(
        retriever,
        reader,
        prepared.negatives.miner,
        prepared.tokens,
        questions,
        scale=checked.scale,
        k=k,
        fusion=settings.fusion,
        corrector_weight=settings.corrector_weight,
        frozen=frozen,
        start=start,
        start_targets=beside,
        filters=prepared.negatives.filters,
        at_once=settings.mini_batch_size,
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
    kept_start: bool,
    steps: int,
) -> RunResult:
    parts, looks = trained.record.parts, trained.record.looks
    step = int(kept_look(looks, score)["step"]) if looks else steps
    shared = shared_results(checked, prepared, trained.record, steps)
    shared["seconds"] |= {
        f"{part}_forward": parts.get(f"{part}_seconds", 0.0) for part in ("retriever", "reader")
    }
    return RunResult(
        **shared,
        initial_metrics=initial,
        metrics=metrics,
        dev=looks,
        reader_step=step,
        retriever_step=0 if kept_start else step,
        gold_questions=evaluator.gold,
        reader_inputs=int(parts.get("reader_inputs", 0)),
        reader_truncated=int(parts.get("reader_truncated", 0)),
        answers=evaluator.examples(),
    )
