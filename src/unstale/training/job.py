"""One training run, from a dataset and an encoder to a model folder and its results."""

from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import PrinterCallback

from unstale import distributed
from unstale.data.dataset import Positives, RetrievalDataset
from unstale.data.holdout import hold_out
from unstale.declare import changed
from unstale.encoders.shape import encoder_shape
from unstale.evaluation.evaluator import NO_QUERIES, Evaluator, sample_queries
from unstale.evaluation.retrieve import cached_chunks
from unstale.miners.corrected import worse_than_stale
from unstale.results import RunResult
from unstale.shown import say
from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.callbacks import watch_steps
from unstale.training.card import card_settings, show_examples, write_card
from unstale.training.checkpoints import train_or_resume
from unstale.training.examples import found_examples, nearest_examples
from unstale.training.failure import warn_of_harm
from unstale.training.finish import save_corrector, save_model, shared_results
from unstale.training.guard import Guard
from unstale.training.overlap import corpus_overlap, last_look
from unstale.training.prepare import Prepared, prepare, training_rows
from unstale.training.rate import decay_with_work
from unstale.training.record import RunRecord
from unstale.training.settings import Checked, TrainSettings
from unstale.training.trainer import FreshTrainer, miner_arguments, trainer_arguments


def train(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    output: Path | str,
    settings: TrainSettings = TrainSettings(),
    *,
    resume: bool = False,
    progress: bool = True,
    **changes: Any,  # noqa: ANN401 - settings by name
) -> RunResult:
    """Do as `unstale.train`, into a folder that is neither checked, locked nor sealed."""
    chosen = changed(settings, changes)
    dataset = hold_out(
        dataset, chosen.eval_split, chosen.holdout, dev=chosen.guard, progress=progress
    )
    checked = chosen.check(dataset, model)
    return train_checked(dataset, model, Path(output), checked, resume=resume, progress=progress)


def train_checked(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    output: Path,
    checked: Checked[TrainSettings],
    *,
    resume: bool = False,
    progress: bool = True,
) -> RunResult:
    """Train with settings that were checked: prepare, train, save, measure."""
    settings, progress = checked.settings, progress and distributed.rank() == 0
    pairs, given = dataset.split("train").pairs, settings.given_negatives or 0
    epochs = _epochs(checked, len(pairs), said=progress)
    prepared = prepare(
        model, dataset, checked, output, pairs,
        filters=settings.filters, given=given, progress=progress,
    )  # fmt: skip
    guarded = settings.guard and "dev" in dataset.qrels
    guard = Guard(dataset, model, output, settings.seed) if guarded else None
    rows = sample_queries(dataset, settings.seed), guard.rows if guard else NO_QUERIES
    evaluator = Evaluator(dataset, settings.eval_split, prepared.tokens, *rows, progress=progress)
    evaluate = prepared.clock.timed("evaluation", evaluator)
    corpus = cached_chunks(prepared.buffer) if prepared.buffer else None  # it is the corpus now
    initial, initial_train = evaluate(model, corpus), evaluator.train

    positives = Positives(dataset, ["train"])
    loss = make_loss(model, checked, prepared, positives)
    loss.about = card_settings(checked) | {"corpus": dataset.name, "targets": len(dataset.targets)}
    trainer = make_trainer(dataset, model, loss, checked, output, progress=progress)
    point = prepared.clock.timed("evaluation", evaluator.point)
    steps = watch_steps(trainer, loss, prepared.meter, settings, point)
    if guard:
        guard.watch(trainer, steps, evaluator.dev)
    train_or_resume(trainer, dataset, output, resume=resume)
    save_model(output, model)

    metrics, last = evaluate(model), settings.steps
    look = prepared.clock.timed("evaluation", last_look)(model, loss.miner, evaluator)
    kept = guard.settle(loss.record, last, evaluator.dev) if guard else last
    if kept < last:
        save_model(output, model)
        metrics = evaluate(model)
    elif checked.strategy.cache != "later":  # whose corpus, embedded midway, is not kept
        save_corrector(output, model, loss.miner)
    logs = trainer.state.log_history
    if distributed.rank() == 0:
        warn_of_harm(initial, metrics, checked.learning_rate, evaluator.train)
        evaluator.save(output, settings.strategy)
        name = f"{dataset.name} {settings.eval_split}"
        write_card(output / "model", model, name, metrics, loss.record.freshness, logs)
    return RunResult(
        **shared_results(checked, prepared, loss.record, settings.steps),
        **_results(checked, loss.record, evaluator),
        epochs=epochs,
        shape=encoder_shape(model),
        losses=_losses(logs),
        initial_metrics=initial,
        metrics=metrics,
        initial_train_metrics=initial_train,
        overlap=corpus_overlap(look) if look else None,
        examples=nearest_examples(look, dataset, positives) if look else [],
        retriever_step=kept,
    )


def _results(
    checked: Checked[TrainSettings], record: RunRecord, evaluator: Evaluator
) -> dict[str, Any]:
    """Return what Algorithm 1 alone knows of a run, as `RunResult` names it."""
    return {
        "batch_size": checked.batch_size,
        "negatives": checked.counts._asdict(),
        "corrector_worse_at": [f.step for f in record.freshness if worse_than_stale(f)],
        "dev": record.looks or None,
        "found": found_examples(evaluator),
        "train_metrics": evaluator.train,
    }


def _epochs(checked: Checked[TrainSettings], pairs: int, *, said: bool) -> float:
    """Return how many epochs the steps of a run are, and say what the run will do."""
    steps = checked.settings.steps
    size = checked.batch_size * checked.settings.trainer.get("gradient_accumulation_steps", 1)
    epochs = steps * size / pairs
    if said and checked.skips_mining:
        say(checked.skips_mining)
    if said:
        length = f"{steps:,} steps of {size} training pairs"
        say(f"{length} are {epochs:.3g} epochs of {pairs:,} pairs", flush=True)
    return epochs


def _losses(logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take the encoders' loss out of what the trainer logged; the corrector's is another matter."""
    known = [log for log in logs if "loss" in log]
    return [{"step": log["step"], "loss": log.get("task_loss", log["loss"])} for log in known]


def make_loss(
    model: SentenceTransformer,
    checked: Checked[TrainSettings],
    prepared: Prepared,
    positives: Positives,
) -> FreshNegativesLoss:
    """Make Algorithm 1 out of its parts."""
    settings = checked.settings
    loss = FreshNegativesLoss(
        model,
        prepared.negatives,
        prepared.tokens,
        positives,
        scale=checked.scale,
        corrector_weight=settings.corrector_weight,
        share_candidates=settings.share_candidates,
        adds_in_batch=checked.strategy.adds_in_batch,
        mini_batch_size=settings.mini_batch_size,
        matryoshka_dims=settings.matryoshka_dims,
    )
    loss.record.clock, loss.record.identity = prepared.clock, prepared.identity
    return loss


def make_trainer(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    loss: FreshNegativesLoss,
    checked: Checked[TrainSettings],
    output: Path,
    *,
    progress: bool,
) -> FreshTrainer:
    """Make the trainer of a run; without progress it is silent."""
    arguments = _arguments(model, loss, checked, output, progress=progress)
    rows, keep = training_rows(dataset), checked.settings.keep_checkpoints
    show_examples(model, dataset)
    trainer = FreshTrainer(model, arguments, rows, loss, keep)
    decay_with_work(trainer, loss.miner)
    if not progress:
        trainer.remove_callback(PrinterCallback)
    return trainer


def _arguments(
    model: SentenceTransformer,
    loss: FreshNegativesLoss,
    checked: Checked[TrainSettings],
    output: Path,
    *,
    progress: bool,
) -> SentenceTransformerTrainingArguments:
    """Return what sentence-transformers' Trainer is to know; a user's own arguments win."""
    settings = checked.settings
    ours = trainer_arguments(
        output, settings, checked.batch_size, checked.learning_rate, model.device, progress=progress
    )
    ours |= miner_arguments(model, loss, settings.corrector_lr)
    return SentenceTransformerTrainingArguments(**ours | settings.trainer)
