"""Three lines that make the negatives of a sentence-transformers script fresh.

```python
from unstale import FreshNegatives
fresh = FreshNegatives(model, train_dataset)
trainer = fresh.attach(SentenceTransformerTrainer(model, args, fresh.dataset, loss=fresh.loss))
```
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, final

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from torch import nn

from unstale.buffer.embed import embed_corpus
from unstale.data.dataset import ByQuery, Positives, RetrievalDataset
from unstale.data.formats.columns import Columns
from unstale.data.formats.hf import from_columns
from unstale.declare import changed
from unstale.drop_in.callback import KeepFresh, check_wrapping
from unstale.drop_in.loss import ScriptLoss
from unstale.drop_in.routing import route
from unstale.encoders.embed import Task
from unstale.encoders.load import check_similarity, silence_dropout
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.miners.strategy import find_strategy, strategies
from unstale.settings import CheckpointSettings
from unstale.training.card import card_settings, show_examples
from unstale.training.job import make_loss
from unstale.training.own_weights import OWN_WEIGHTS
from unstale.training.prepare import prepare, training_rows
from unstale.training.rate import decay_with_work
from unstale.training.settings import (
    Checked,
    TrainSettings,
    default_batch,
    held_targets,
    without_effect,
)

_LOG = logging.getLogger(__name__)
# What the trainer's own arguments decide in a script.
_SET_BY_TRAINER = {f.name for f in fields(CheckpointSettings)}
_SET_BY_TRAINER |= {"batch_size", "learning_rate", "trainer", "eval_split", "eval_steps"}
_SET_BY_TRAINER |= {"epochs", "holdout", "guard"}


@final
class FreshNegatives:
    """A loss, a dataset and a callback for the stock `SentenceTransformerTrainer`.

    The corpus to mine from is every positive and negative of the training set, and `corpus`. It is
    tokenised here and embedded once: here, or between the two stages of `staged`, the default.
    Negatives in the training set are used beside the mined.

    Args:
        model: The encoder to train, at its start.
        train_dataset: Columns `query` (or `anchor`, `question`), `positive` (or `answer`, ...) and
            maybe `negative`, `negative_1`, ...; cells may be lists. A query on several rows has
            several positives.
        corpus: Further texts to mine from.
        settings: The settings, as of `unstale train`; those that belong to the trainer (batch
            size, learning rate, evaluation, checkpoints) are taken from its own arguments. A
            `buffer` that does not exist yet is written, and found again by the next script.
        columns: Which column plays which role, e.g. `{"query": "title"}`.
        steps: Length of the run, for strategies that refresh on a schedule.
        dropout: Keep the encoder's dropout; a corrector would follow its noise.
        progress: Show progress bars.
        changes: Settings by name, which replace those in `settings`, such as
            `strategy="corrected"` or `filters=Filters(relative_margin=0.05)`.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        train_dataset: Dataset,
        corpus: Iterable[str] = (),
        settings: TrainSettings = TrainSettings(),
        *,
        columns: Mapping[str, str] | None = None,
        steps: int | None = None,
        dropout: bool = False,
        progress: bool = True,
        **changes: Any,  # noqa: ANN401 - settings by name
    ) -> None:
        for name in sorted(_SET_BY_TRAINER & changes.keys()):
            raise InputError(f"{name}: the trainer decides it; set it in its own arguments")
        chosen = changed(settings, changes)
        strategy = find_strategy(chosen.strategy)
        if steps is None and strategy.needs_steps:
            raise InputError(f"{strategy.name} needs the length of the run: give it as steps=")
        for said in without_effect(chosen, {strategy.name: strategy}, strategies()):
            _LOG.warning(said)
        if chosen.mapped and chosen.buffer is None:
            raise InputError("mapped=True needs a folder for the embedded corpus: buffer=FOLDER")
        if chosen.buffer is not None and strategy.cache in ("none", "later"):
            _LOG.warning("buffer has no effect with %s: it embeds nothing before", strategy.name)
        check_similarity(model)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            # Its corrector would drift apart, and DDP cannot follow a step that mines midway.
            rule = "start `unstale train` by torchrun instead"
            raise InputError(f"fresh negatives in a script need it to be one process: {rule}")
        data, roles = from_columns(train_dataset, corpus, columns, progress=progress)
        given = _given(chosen, data, train_dataset, roles)
        chosen = replace(chosen, given_negatives=given, steps=steps or 1, eval_split="train")
        checked = _check(chosen, data, model, progress=progress)
        if checked.skips_mining:
            _LOG.warning(checked.skips_mining)
        if not dropout:
            silence_dropout(model)
        pairs = data.split("train").pairs
        prepared = prepare(
            model, data, checked, None, pairs,
            filters=chosen.filters, given=given, progress=progress,
        )  # fmt: skip
        algorithm = make_loss(model, checked, prepared, Positives(data, ["train"]))
        left_out = _SET_BY_TRAINER if steps else {"steps", *_SET_BY_TRAINER}
        algorithm.about = card_settings(checked, left_out)
        algorithm.about |= {"corpus": data.name, "targets": len(data.targets)}
        self.loss = ScriptLoss(algorithm)
        self.dataset = training_rows(data, roles.query)
        show_examples(model, data)
        self.tasks: dict[str, Task] = dict.fromkeys(roles.texts, "document")
        self.tasks[roles.query] = "query"
        self.corrector_lr = chosen.corrector_lr
        self._device = model.device  # where the buffer is, too
        self._meter = prepared.meter
        self._meter_steps = chosen.meter_steps
        self._planned = steps if strategy.needs_steps else None

    def attach(self, trainer: SentenceTransformerTrainer) -> SentenceTransformerTrainer:
        """Teach a trainer that its loss owns weights, and how queries are encoded; return it."""
        check_wrapping(trainer, self.loss)
        if trainer.model.device.type != self._device.type:
            moved = f"was on {self._device.type} when FreshNegatives was made"
            there = trainer.model.device.type
            rule = f"load it there first: SentenceTransformer(..., device={there!r})"
            raise InputError(f"the model {moved}, and the trainer moved it: {rule}")
        if self.own_weights:
            given: Any = trainer.args.learning_rate_mapping or {}  # the arguments parsed any text
            trainer.args.learning_rate_mapping = {OWN_WEIGHTS: self.corrector_lr} | given
        route(trainer, self.tasks)
        decay_with_work(trainer, self.loss.algorithm.miner)
        callback = KeepFresh(
            trainer, self.loss.algorithm, self._meter, self._meter_steps, planned=self._planned
        )
        trainer.add_callback(callback)
        self.loss.attached = True
        return trainer

    @property
    def own_weights(self) -> list[nn.Parameter]:
        """Return the weights that are not the encoders', for an optimizer of your own."""
        return list(self.loss.algorithm.miner.parameters())


def _check(
    chosen: TrainSettings, data: RetrievalDataset, model: SentenceTransformer, *, progress: bool
) -> Checked[TrainSettings]:
    """Check the settings for a batch of one: the trainer's is not known yet.

    The folder for the embedded corpus is filled, or must be of the same model and corpus.
    """
    pairs = len(data.split("train").pairs)
    batch = default_batch(model, pairs)
    trained = chosen.steps * batch if chosen.steps > 1 else pairs  # or it is not known
    if find_strategy(chosen.strategy).cache == "later":
        held = held_targets(chosen, model, len(data.targets), trained)
        chosen = replace(chosen, mine_among=held)
    alone = replace(chosen, batch_size=1, buffer=None)
    checked = alone.check(data, model)
    if chosen.buffer is not None and checked.strategy.cache not in ("none", "later"):
        folder, tokens = Path(chosen.buffer), target_tokens(model, data, progress=progress)
        embed_corpus(model, tokens, folder, checked.made_by, dtype=chosen.dtype, progress=progress)
        checked = replace(alone, buffer=folder).check(data, model, checked)
    return replace(checked, batch_size=batch)


def _given(chosen: TrainSettings, data: RetrievalDataset, rows: Dataset, roles: Columns) -> int:
    """Return how many given negatives to draw; by default as many as the row with most has."""
    if chosen.given_negatives is not None:
        return chosen.given_negatives
    columns = [rows[name] for name in roles.negatives]
    count = max((sum(map(_count, cells)) for cells in zip(*columns, strict=True)), default=0)
    most = ByQuery(data.split("train").negatives, len(data.queries)).most
    if most > count:
        rule = f"{count} of them, as on one row, are drawn for it at a step"
        _LOG.warning("a query has up to %d given negatives; %s", most, rule)
    return count


def _count(cell: Any) -> int:  # noqa: ANN401 - a text, a list of texts, or nothing
    return len(cell) if isinstance(cell, list) else int(bool(cell))
