"""The trial: train on a sample with in-batch negatives and with the default, for equal seconds."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from unstale.data.dataset import Positives, RetrievalDataset
from unstale.doctor.advice import FEWEST, Findings, Tried, interval
from unstale.doctor.sample import sample
from unstale.encoders.embed import embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator
from unstale.miners.staged import first_stage
from unstale.settings import MINE_FROM
from unstale.training.callbacks import Steps
from unstale.training.job import make_loss, make_trainer
from unstale.training.prepare import prepare
from unstale.training.settings import Checked, TrainSettings, default_batch

# Shares of the time: to learn the encoder's speed, to embed the sample once (it is embedded four
# times), and for each of the two trainings; the rest is left for what cannot be foreseen.
_RATE, _EMBED, _TRAIN = 0.05, 0.05, 0.3
_SMALLEST = 48  # targets of a sample
_MOST = 300  # steps
_WORK = 4.0  # targets embedded in the time that a step takes for each of its queries, about
_MINING = 1.5  # what a step that mines takes, in steps that do not, about


@final
class Trial(NamedTuple):
    """What a trial was made on, and what it found."""

    dataset: RetrievalDataset
    findings: Findings


def run_trial(
    dataset: RetrievalDataset,
    encoder: Callable[[], SentenceTransformer],
    settings: TrainSettings,
    seconds: float,
    steps: int | None,
    targets: int,
) -> Trial:
    """Train twice from the same start for the same seconds or steps, and rank held-out queries.

    The learning rate stays constant, as it nearly does over the first steps of a long training, so
    a training can stop whenever its time is up.

    Args:
        dataset: The whole data; it is sampled.
        encoder: Loads the encoder, always at the same start.
        settings: Batch size, if it is not to be chosen, learning rate and seed.
        seconds: How long to take; it decides the sample, the batch and the steps.
        steps: Steps of each training, instead of as many as there is time for.
        targets: The most targets to sample.
    """
    model = encoder()
    rate = _rate(model, sample(dataset, min(512, targets)), _RATE * seconds)
    part = sample(dataset, min(targets, max(_SMALLEST, int(_EMBED * seconds * rate))))
    affordable = int(_TRAIN * seconds * rate / (_WORK * FEWEST))
    usual_batch = default_batch(model, len(part.split("train").pairs))
    batch = settings.batch_size or min(usual_batch, max(4, affordable))
    trainer = {"lr_scheduler_type": "constant"}
    chosen = replace(settings, batch_size=batch, trainer=trainer, eval_split="dev", guard=False)
    chosen = replace(chosen, mine_from=MINE_FROM)
    before = _measure(part, model)

    limit = np.inf if steps else _TRAIN * seconds
    plain = replace(chosen, strategy="in-batch", steps=steps or _MOST)
    first, ranked = _train(part, model, plain.check(part, model), limit)
    if not steps:  # as many as the same seconds allow, by what a step took
        share, limit = 1 - MINE_FROM, first.seconds
        pace = first.seconds / first.steps * (1 - share + _MINING * share)
        steps = max(1, int((limit - len(part.targets) / rate) / pace))
    model = encoder()
    usual = replace(chosen, steps=steps)
    second, ranked_too = _train(part, model, usual.check(part, model), limit)
    mined = max(0, second.steps - first_stage(MINE_FROM, steps))
    found = Findings(
        first,
        second,
        float(before.mean()),
        *interval(ranked_too - ranked),
        len(before),
        batch,
        mined,
    )
    return Trial(part, found)


@final
class _Clock(TrainerCallback):
    """Stop when the time is up."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.began = self.seconds = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Start the clock."""
        self.began = time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Stop the training if the time is up."""
        self.seconds = time.perf_counter() - self.began
        if self.seconds > self.limit:
            control.should_training_stop = True


def _train(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    checked: Checked[TrainSettings],
    limit: float,
) -> tuple[Tried, Float[ndarray, " q"]]:
    """Train until the time is up, and return nDCG@10 of every held-out query."""
    with tempfile.TemporaryDirectory(prefix="unstale-") as scratch:
        pairs = dataset.split("train").pairs
        prepared = prepare(model, dataset, checked, Path(scratch), pairs, progress=False)
        loss = make_loss(model, checked, prepared, Positives(dataset, ["train"]))
        trainer = make_trainer(dataset, model, loss, checked, Path(scratch), progress=False)
        clock = _Clock(limit)
        trainer.add_callback(Steps(trainer, loss, None, checked.settings.steps + 1))
        trainer.add_callback(clock)
        trainer.train()
        found, done = _measure(dataset, model), trainer.state.global_step
        return Tried(checked.strategy.name, done, clock.seconds, float(found.mean())), found


def _measure(dataset: RetrievalDataset, model: SentenceTransformer) -> Float[ndarray, " q"]:
    """Return nDCG@10 of every held-out query, over the sample."""
    tokens = target_tokens(model, dataset, progress=False)
    evaluator = Evaluator(dataset, "dev", tokens, progress=False)
    evaluator(model)
    return evaluator.values["dev"]["ndcg@10"]


def _rate(model: SentenceTransformer, dataset: RetrievalDataset, seconds: float) -> float:
    """Measure how many targets a second the model embeds, in about the time given."""
    tokens = target_tokens(model, dataset, progress=False)
    rows, done, size = np.arange(len(tokens)), 0, 4
    embed_targets(model, tokens, rows[:size])  # the first call of anything is slow
    began = time.perf_counter()
    while done < len(rows) and time.perf_counter() - began < seconds:
        embed_targets(model, tokens, rows[done : done + size])
        done, size = done + len(rows[done : done + size]), 2 * size
    return done / (time.perf_counter() - began)
