"""What happens around a training step: count it, refresh, read the meter, measure."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import final

from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from unstale.data.tokens import TokenStore
from unstale.encoders.embed import embed_together
from unstale.miners.miner import Miner
from unstale.settings import JobSettings
from unstale.training.meter import Meter
from unstale.training.record import RunRecord
from unstale.training.state import search_readings

_LOG = logging.getLogger(__name__)
_RETRIEVAL = ("recall@1", "recall@10", "ndcg@10")
# What is logged of a point of a curve: of the split, of the training queries, of a reader.
LOGGED = (*_RETRIEVAL, *(f"train_{name}" for name in _RETRIEVAL), "exact_match", "f1")
LOGGED += ("answer_recall@20",)


class Algorithm(nn.Module):
    """What Algorithms 1 and 2 have in common: encoders that train while a miner retrieves.

    It is no protocol: since Python 3.12 one does not find the modules that a module holds.
    """

    model: SentenceTransformer
    miner: Miner
    tokens: TokenStore
    record: RunRecord


class Steps(TrainerCallback):
    """Tell the algorithm which step it is, let the miner refresh, and read the meter."""

    def __init__(
        self, trainer: Trainer, algorithm: Algorithm, meter: Meter | None, every: int
    ) -> None:
        self.trainer = trainer
        self.algorithm = algorithm
        self.meter = meter
        self.every = every
        self.clock = 0.0  # since when time is the training's

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Start the clock."""
        if args.fp16 and args.device.type == "cpu" and self.trainer.accelerator.scaler is None:
            _LOG.warning("fp16 needs an accelerator: on this CPU the encoders run in float32")
        self.algorithm.miner.begin(state.max_steps)
        self.clock = time.perf_counter()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Key the random draws by the number of completed steps."""
        self.algorithm.record.step = state.global_step
        if state.global_step == 0:
            self.read(0)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Refresh and measure after a completed step."""
        counters = self.algorithm.record.counters
        began = time.perf_counter()
        embedded = self.algorithm.miner.refresh(state.global_step, self._embed)
        if embedded.first:
            counters.embedding_seconds += (took := time.perf_counter() - began)
            self.clock += took
        counters.targets_embedded += embedded.first
        counters.targets_reembedded += embedded.refreshed
        counters.targets_sampled += embedded.sampled
        due = state.global_step % self.every == 0 and not embedded.first  # that is fresh
        if due or state.global_step == state.max_steps:
            self.read(state.global_step)
            if counters.candidates_dropped:
                self.log({f"dropped/{k}": float(v) for k, v in counters.candidates_dropped.items()})
        now = time.perf_counter()
        counters.training_seconds += now - self.clock
        if state.global_step == 1:
            counters.starting_seconds = counters.training_seconds
        self.clock = now

    def log(self, values: Mapping[str, float | int]) -> None:
        """Log something more; what the trainer was to log at this step it still will."""
        asked = self.trainer.control.should_log
        self.trainer.log(dict(values))
        self.trainer.control.should_log = asked

    def _embed(self, rows: Tensor) -> Tensor:
        vectors = embed_together(self.algorithm.model, self.algorithm.tokens, rows.cpu().numpy())
        self.algorithm.record.check_finite("fresh embeddings", vectors, rows)
        return vectors

    def read(self, step: int) -> None:
        """Read the meter, if there is one, and keep the reading."""
        if self.meter is None:
            return
        record, began = self.algorithm.record, time.perf_counter()
        counters = record.counters
        reading = self.meter.read(self.algorithm.model, self.algorithm.miner, step)
        counters.metering_seconds += time.perf_counter() - began
        if reading is not None:
            counters.targets_probed += reading.encoded
            record.freshness.append(reading.freshness)
            found = search_readings(self.algorithm.miner) if step else {}
            if found:
                record.search.append({"step": step, **found})
            self.log(reading.freshness.logs() | {f"search/{k}": v for k, v in found.items()})
            self.algorithm.miner.observe(reading.freshness)


@final
class Curve(TrainerCallback):
    """Evaluate the model every `every` steps; the time it takes is not the training's."""

    def __init__(
        self, steps: Steps, evaluate: Callable[[SentenceTransformer], dict[str, float]], every: int
    ) -> None:
        self.steps = steps
        self.evaluate = evaluate
        self.every = every

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Add a point to the curve."""
        if state.global_step % self.every == 0 or state.global_step == state.max_steps:
            record = self.steps.algorithm.record
            metrics = self.evaluate(self.steps.algorithm.model)
            seconds = record.counters.training_seconds
            record.curve.append({"step": state.global_step, "seconds": seconds, **metrics})
            self.steps.log({f"eval/{k}": metrics[k] for k in LOGGED if k in metrics})
            self.steps.clock = time.perf_counter()


def watch_steps(
    trainer: Trainer,
    algorithm: Algorithm,
    meter: Meter,
    settings: JobSettings,
    evaluate: Callable[[SentenceTransformer], dict[str, float]],
) -> Steps:
    """Let a trainer refresh, read the meter and evaluate as often as the settings say."""
    every = settings.meter_steps or max(1, settings.steps // 10)
    steps = Steps(trainer, algorithm, meter, every)
    trainer.add_callback(steps)
    if settings.eval_steps:
        trainer.add_callback(Curve(steps, evaluate, settings.eval_steps))
    return steps
