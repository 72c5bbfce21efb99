"""The trial: embed a sample once, and train on it until the time is up."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple, final

import numpy as np
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from unstale.data.dataset import Positives, RetrievalDataset
from unstale.doctor.advice import FEWEST, Findings
from unstale.doctor.sample import sample
from unstale.encoders.embed import embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.training.callbacks import Steps
from unstale.training.job import make_loss, make_trainer
from unstale.training.meter import Meter
from unstale.training.prepare import prepare
from unstale.training.settings import Checked, TrainSettings

# Shares of the time: to learn the encoder's speed, to embed the sample, for one reading of the
# meter (there are two), and until when to train; the rest is left for what cannot be foreseen.
_RATE, _EMBED, _READ, _TRAIN = 0.05, 0.12, 0.06, 0.8
_SMALLEST = 48  # targets of a sample
_MOST = 300  # steps
_IN_BATCH = 4  # steps to time without mining
_WORK = 4.0  # targets embedded in the time that a step takes for each of its queries, about


@final
class Trial(NamedTuple):
    """What a trial was made on, and what it found."""

    dataset: RetrievalDataset
    findings: Findings
    cosine: float  # of stale and fresh embeddings at the end


def run_trial(
    dataset: RetrievalDataset,
    encoder: Callable[[], SentenceTransformer],
    settings: TrainSettings,
    seconds: float,
    steps: int | None,
    targets: int,
) -> Trial:
    """Train with `corrected-free` for a while, and see what the cache holds before and after h.

    The learning rate stays constant, as it nearly does over the first steps of a long training, so
    the training can stop whenever the time is up.

    Args:
        dataset: The whole data; it is sampled.
        encoder: Loads the encoder, always at the same start.
        settings: Batch size, if it is not to be chosen, learning rate and seed.
        seconds: How long to take; it decides the sample, the batch and the steps.
        steps: Steps of the training, instead of as many as there is time for.
        targets: The most targets to sample.
    """
    began = time.perf_counter()
    model = encoder()
    rate = _rate(model, sample(dataset, min(512, targets)), _RATE * seconds)
    part = sample(dataset, min(targets, max(_SMALLEST, int(_EMBED * seconds * rate))))
    affordable = int(_TRAIN * seconds * rate / (_WORK * 2 * FEWEST))
    batch = settings.batch_size or min(64, len(part.split("train").pairs), max(4, affordable))
    chosen = replace(
        settings,
        strategy="corrected-free",
        steps=steps or _MOST,
        batch_size=batch,
        trainer={"lr_scheduler_type": "constant"},
        eval_split="train",
        probe_targets=max(24, min(2048, int(_READ * seconds * rate))),
    )
    until = np.inf if steps else began + _TRAIN * seconds
    clock = _train(part, model, chosen.check(part, model), until)
    pace = median(clock.paces[1:] or clock.paces)
    plain = None
    if steps or time.perf_counter() + (_IN_BATCH + 1) * pace < began + 0.95 * seconds:
        own = replace(chosen, strategy="in-batch", steps=_IN_BATCH)
        plain = median(_train(part, model, own.check(part, model), np.inf).paces[1:])
    taken = clock.steps.algorithm.record.freshness
    overlaps = [(reading.step, reading.overlap_stale) for reading in taken]
    held = taken[-1].overlap_corrected
    assert held is not None
    found = Findings(overlaps, held, pace, plain, clock.embedding, batch)
    return Trial(part, found, taken[-1].cosine_stale)


@final
class _Clock(TrainerCallback):
    """Time the steps, read the meter halfway, and stop when the time is up."""

    def __init__(self, steps: Steps, meter: Meter, until: float, embedding: float) -> None:
        self.steps = steps
        self._meter = meter
        self.embedding = embedding  # seconds that embedding the sample took
        self.paces: list[float] = []
        self._began = self._last = time.perf_counter()
        self._until = until
        self._read = False

    def read(self, step: int) -> None:
        """Read the meter, for the first time after the first step: before, nothing has drifted."""
        self.steps.meter = self._meter
        self.steps.read(step)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Start the clock of a step, after the meter was read."""
        self._last = time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Stop the clock of a step, and the training if another would take too long."""
        now = time.perf_counter()
        self.paces.append(now - self._last)
        halfway = now > (self._began + self._until) / 2 or 2 * state.global_step >= state.max_steps
        if halfway and not self._read:
            self._read = True
            self.read(state.global_step)
        if time.perf_counter() + self.paces[-1] > self._until:
            control.should_training_stop = True


def _train(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    checked: Checked[TrainSettings],
    until: float,
) -> _Clock:
    """Train until a time, without measuring retrieval, and read the meter at the end."""
    with tempfile.TemporaryDirectory(prefix="unstale-") as scratch:
        pairs = dataset.split("train").pairs
        prepared = prepare(model, dataset, checked, Path(scratch), pairs, progress=False)
        loss = make_loss(model, checked, prepared, Positives(dataset, ["train"]))
        trainer = make_trainer(dataset, model, loss, checked, Path(scratch), progress=False)
        steps = Steps(trainer, loss, None, checked.settings.steps + 1)
        clock = _Clock(steps, prepared.meter, until, prepared.clock.read().get("embedding", 0.0))
        trainer.add_callback(steps)
        trainer.add_callback(clock)
        trainer.train()
        taken = loss.record.freshness
        if not taken or taken[-1].step != trainer.state.global_step:
            clock.read(trainer.state.global_step)
        return clock


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
