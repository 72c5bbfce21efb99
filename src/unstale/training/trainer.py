"""The sentence-transformers trainer, taught that its loss owns weights too.

A stock trainer does not save a loss's weights, resets them on resume while their Adam moments
come back, and leaves them out of `max_grad_norm`. This one saves and restores the miner beside
the model, and clips the corrector by its own norm, so that neither loss can change the other's
update.
"""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from unstale.encoders.embed import embed_targets, prompt_of
from unstale.errors import InputError
from unstale.evaluation.evaluator import Evaluator
from unstale.training.algorithm1 import Counters, FreshNegativesLoss
from unstale.training.meter import Freshness, Meter

MINER_WEIGHTS = "miner.safetensors"
MINER_STATE = "miner.json"
_SEARCH = "search:"  # before the names of a search's tensors


@final
class FreshTrainer(SentenceTransformerTrainer):
    """Train with a `FreshNegativesLoss`; checkpoints hold the corrector and the counters.

    Args:
        model: The encoders, also those of `loss`.
        args: Any `SentenceTransformerTrainingArguments`; `miner_arguments` fills in what the
            loss needs.
        train_dataset: Columns `query` and `label`, see `FreshNegativesLoss`.
        loss: The loss, with its miner.
        meter: Reads the freshness, if given.
        meter_steps: How many steps lie between two readings.
        evaluate: Measures the model during training, if given.
        eval_steps: How many steps lie between two measurements.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        args: SentenceTransformerTrainingArguments,
        train_dataset: Dataset,
        loss: FreshNegativesLoss,
        meter: Meter | None = None,
        meter_steps: int = 50,
        evaluate: Evaluator | None = None,
        eval_steps: int = 0,
    ) -> None:
        if args.world_size > 1 or args.n_gpu > 1:
            raise InputError("training in several processes is not supported yet; run one")
        super().__init__(model=model, args=args, train_dataset=train_dataset, loss=loss)
        self.fresh_loss = loss
        self.freshness: list[Freshness] = []
        self.curve: list[dict[str, float]] = []  # step, seconds of training so far, metrics
        self.clock = 0.0  # since when time is the training's
        self.add_callback(_Steps(self, meter, meter_steps))
        if evaluate is not None:
            self.add_callback(_Curve(self, evaluate, eval_steps))

    def _clip_grad_norm(self, model: nn.Module) -> Tensor | float | None:
        norm = super()._clip_grad_norm(model)  # the encoders, without the loss's own weights
        own = list(self.fresh_loss.miner.parameters())
        if own:
            torch.nn.utils.clip_grad_norm_(own, self.args.max_grad_norm)
        return norm

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ANN401
        """Save the model as a plain folder and the miner beside it; nothing pickled."""
        folder = Path(output_dir or self.args.output_dir or ".")
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(str(folder))
        tensors = dict(self.fresh_loss.miner.state_dict())
        for search in self._searches():
            tensors |= {f"{_SEARCH}{k}": v for k, v in search.state_dict().items()}
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / MINER_WEIGHTS)
        state = {
            "counters": asdict(self.fresh_loss.counters),
            "freshness": [asdict(f) for f in self.freshness],
            "curve": self.curve,
        }
        (folder / MINER_STATE).write_text(json.dumps(state), "utf-8")

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:  # type: ignore[override]
        super()._load_from_checkpoint(checkpoint_path)
        folder = Path(checkpoint_path)
        tensors = load_file(folder / MINER_WEIGHTS)
        own = {k: tensors.pop(k) for k in list(tensors) if not k.startswith(_SEARCH)}
        self.fresh_loss.miner.load_state_dict(own)
        for search in self._searches():
            search.load_state_dict({k.removeprefix(_SEARCH): v for k, v in tensors.items()})
        state = json.loads((folder / MINER_STATE).read_text("utf-8"))
        self.fresh_loss.counters = Counters(**state["counters"])
        self.freshness = [Freshness(**f) for f in state["freshness"]]
        self.curve = state["curve"]

    def _searches(self) -> list[Any]:
        """List the searches that remember something: a snapshot, its pace."""
        found = [getattr(m, "search", None) for m in self.fresh_loss.miner.modules()]
        return [search for search in found if hasattr(search, "state_dict")]


@final
class _Steps(TrainerCallback):
    """Tell the loss which step it is, let the miner refresh, and read the meter."""

    def __init__(self, trainer: FreshTrainer, meter: Meter | None, every: int) -> None:
        self.trainer = trainer
        self.meter = meter
        self.every = every

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Start the clock."""
        self.trainer.clock = time.perf_counter()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Key the random draws by the number of completed steps."""
        self.trainer.fresh_loss.step = state.global_step
        if state.global_step == 0:
            self._read(0)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Refresh and measure after a completed step."""
        loss = self.trainer.fresh_loss
        embedded = loss.miner.refresh(state.global_step, self._embed)
        loss.counters.targets_reembedded += embedded.refreshed
        loss.counters.targets_sampled += embedded.sampled
        if state.global_step % self.every == 0 or state.global_step == state.max_steps:
            self._read(state.global_step)
        now = time.perf_counter()
        loss.counters.training_seconds += now - self.trainer.clock
        self.trainer.clock = now

    def _embed(self, rows: Tensor) -> Tensor:
        loss = self.trainer.fresh_loss
        return embed_targets(self.trainer.model, loss._tokens, rows.cpu().numpy())

    def _read(self, step: int) -> None:
        if self.meter is None:
            return
        loss = self.trainer.fresh_loss
        reading = self.meter.read(self.trainer.model, loss.miner, step)
        if reading is not None:
            loss.counters.targets_probed += len(self.meter.rows)
            self.trainer.freshness.append(reading)
            self.trainer.log(reading.logs())


@final
class _Curve(TrainerCallback):
    """Measure the model every so many steps; the time it takes is not the training's."""

    def __init__(self, trainer: FreshTrainer, evaluate: Evaluator, every: int) -> None:
        self.trainer = trainer
        self.evaluate = evaluate
        self.every = every

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Add a point to the curve."""
        if state.global_step % self.every == 0 or state.global_step == state.max_steps:
            seconds = self.trainer.fresh_loss.counters.training_seconds
            metrics = self.evaluate(self.trainer.model)
            self.trainer.curve.append({"step": state.global_step, "seconds": seconds, **metrics})
            shown = {f"eval/{k}": metrics[k] for k in ("recall@1", "recall@10", "ndcg@10")}
            self.trainer.log(shown)
            self.trainer.clock = time.perf_counter()


def miner_arguments(
    model: SentenceTransformer, miner: nn.Module, corrector_lr: float
) -> dict[str, Any]:
    """Return the training arguments that a `FreshNegativesLoss` needs.

    Queries pass through their own tower, prompt and length, and the miner's weights have their
    own learning rate.
    """
    arguments: dict[str, Any] = {"router_mapping": {"query": "query"}}
    if prompt := prompt_of(model, "query"):
        arguments["prompts"] = {"query": prompt}
    if any(True for _ in miner.parameters()):
        arguments["learning_rate_mapping"] = {r"^miner\.": corrector_lr}
    return arguments
