"""Three lines that make the negatives of a sentence-transformers script fresh.

```python
from unstale import FreshNegatives
fresh = FreshNegatives(model, train_dataset)
trainer = fresh.attach(SentenceTransformerTrainer(model, args, fresh.dataset, loss=fresh.loss))
```
"""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from torch import nn
from tqdm import tqdm
from transformers import set_seed

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.embed import open_or_embed
from unstale.buffer.fingerprint import fingerprint
from unstale.corrector.losses import LossName
from unstale.data.dataset import ByQuery, Positives, RetrievalDataset
from unstale.data.formats.columns import Columns
from unstale.data.formats.hf import from_columns
from unstale.data.tokens import TokenStore
from unstale.drop_in.callback import KeepFresh, check_wrapping
from unstale.drop_in.routing import route
from unstale.encoders.embed import Task, embed_targets, is_cosine
from unstale.encoders.load import check_similarity, silence_dropout
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.integrity import digest
from unstale.miners.filters import Filters
from unstale.search.auto import Mode, choose_on_device
from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.identity import identity
from unstale.training.meter import Meter
from unstale.training.own_weights import NAMES, own_weights
from unstale.training.recipe import Recipe
from unstale.training.settings import check_settings, hidden_widths, negatives
from unstale.training.start import default_batch, freeze_targets, hold, training_rows
from unstale.training.strategies import build_miner, find_strategy

_LOG = logging.getLogger(__name__)


@final
class FreshNegatives:
    """A loss, a dataset and a callback for the stock `SentenceTransformerTrainer`.

    The corpus to mine from is every positive and negative of the training set, and `corpus`. It is
    tokenised and embedded here, once. Negatives in the training set are used beside the mined.

    Args:
        model: The encoder to train, at its start.
        train_dataset: Columns `query` (or `anchor`, `question`), `positive` (or `answer`, ...) and
            maybe `negative`, `negative_1`, ...; cells may be lists. A query on several rows has
            several positives.
        corpus: Further texts to mine from.
        columns: Which column plays which role, e.g. `{"query": "title"}`.
        strategy: How candidates are chosen, as `unstale train --strategy`.
        hard_negatives: Targets mined and encoded for each query; by default the strategy's number.
        uniform_negatives: Targets drawn uniformly and encoded for each query, likewise.
        free_negatives: Targets mined for each query and not encoded, likewise.
        given_negatives: Of a query's own negatives in the training set, over all its rows, how many
            to draw for a step; None: the most that a row has.
        share_candidates: Let all queries of a batch share their candidates.
        scale: The paper's beta; by default 20 for cosines, 1 for dot products.
        learn_scale: Train the scale, too.
        mini_batch_size: Texts encoded at a time (GradCache); 0 for all at once.
        matryoshka_dims: Also train vectors of the first so many dimensions.
        dropout: Keep the encoder's dropout, whose noise a corrector would chase; by default off.
        corrector_hidden: Width of the corrector's hidden layer, or of several.
        corrector_lr: Learning rate of what the loss owns: the corrector, a learnt scale.
        corrector_weight: Weight of the corrector's loss.
        corrector_loss: `ce` or `mse`.
        corrector_anchor: Weight of the mean-squared error beside the cross-entropy.
        memory: Remember what the corrector missed of each target.
        filters: What may be a false negative, and is not mined.
        search: How to search: `exact`, `rolling`, `ivf` or `auto`.
        refresh: Number of refreshes, or Atlas's schedule, of strategies that re-embed.
        steps: Length of the run, which strategies with a schedule need.
        buffer: A folder for the embedded corpus, reused if it is there; by default in memory only.
        meter_steps: Steps between freshness readings; by default a tenth of the run.
        probe_queries: Queries of the meter's probe.
        probe_targets: Targets of the meter's probe, encoded at each reading.
        seed: Of the corrector's start and of all draws.
        progress: Show progress bars.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        train_dataset: Dataset,
        corpus: Iterable[str] = (),
        *,
        columns: Mapping[str, str] | None = None,
        strategy: str = "corrected-free",
        hard_negatives: int | None = None,
        uniform_negatives: int | None = None,
        free_negatives: int | None = None,
        given_negatives: int | None = None,
        share_candidates: bool = True,
        scale: float | None = None,
        learn_scale: bool = False,
        mini_batch_size: int = 0,
        matryoshka_dims: Sequence[int] = (),
        dropout: bool = False,
        corrector_hidden: int | Sequence[int] = (768,),
        corrector_lr: float = 1e-3,
        corrector_weight: float = 10.0,
        corrector_loss: LossName = "ce",
        corrector_anchor: float = 1.0,
        memory: bool = True,
        filters: Filters | None = None,
        search: Mode = "auto",
        refresh: str | int = 80,
        steps: int | None = None,
        buffer: str | Path | None = None,
        meter_steps: int | None = None,
        probe_queries: int = 64,
        probe_targets: int = 512,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        kind, hidden = find_strategy(strategy), hidden_widths(corrector_hidden)
        if steps is None and kind.scheduled:
            raise InputError(f"{strategy} acts at set steps: say how many there are by steps=")
        check_similarity(model)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            # Its corrector would drift apart, and DDP cannot follow a step that mines midway.
            rule = "start `unstale train` by torchrun instead"
            raise InputError(f"fresh negatives in a script need it to be one process: {rule}")
        data, roles = from_columns(train_dataset, corpus, columns, progress=progress)
        given = ByQuery(data.split("train").negatives, len(data.queries))
        if given_negatives is None:
            given_negatives = _most_in_a_row(train_dataset, roles)
            if given.most > given_negatives:
                rule = f"{given_negatives} of them, as on one row, are drawn for it at a step"
                _LOG.warning("a query has up to %d given negatives; %s", given.most, rule)
        check_settings(
            data,
            model,
            strategy=strategy,
            steps=steps or 1,
            batch_size=1,  # the trainer's is not known yet
            hard_negatives=hard_negatives,
            uniform_negatives=uniform_negatives,
            free_negatives=free_negatives,
            share_candidates=share_candidates,
            given_negatives=given_negatives,
            scale=scale,
            mini_batch_size=mini_batch_size,
            matryoshka_dims=matryoshka_dims,
            corrector_hidden=hidden,
            corrector_weight=corrector_weight,
            corrector_anchor=corrector_anchor,
            corrector_loss=corrector_loss,
            memory=memory,
            refresh=refresh,
            probe_queries=probe_queries,
            probe_targets=probe_targets,
            eval_split="train",
            filters=filters,
        )
        count = negatives(strategy, hard_negatives, uniform_negatives, free_negatives)
        if not dropout:
            silence_dropout(model)
        if kind.frozen:
            freeze_targets(model)
        scale = scale or (20.0 if is_cosine(model) else 1.0)
        tokens = target_tokens(model, data, progress=progress)
        made_by = fingerprint(model, data.targets)
        cache = None
        if kind.buffered:
            cache = _embed(model, data, tokens, Path(buffer) if buffer else None, progress)
        batch = default_batch(model, len(data.split("train").pairs))  # the trainer's is not known
        choice = None
        if kind.searches and cache is not None:
            size = len(cache), cache.dim
            choice = choose_on_device(search, *size, hidden, batch, model.device)
        set_seed(seed)  # of the corrector's first weights
        miner = build_miner(
            strategy,
            Recipe(
                targets=len(data.targets),
                buffer=hold(cache, model.device, kind) if cache else None,
                device=model.device,
                steps=steps or 1,
                seed=seed,
                scale=scale,
                uniform_negatives=count.uniform,
                given=given,
                given_negatives=given_negatives,
                corrector_hidden=hidden,
                corrector_loss=corrector_loss,
                corrector_anchor=corrector_anchor,
                memory=memory,
                refresh=refresh,
                search=choice or search,
                batch_size=batch,
                filters=filters or Filters(),
            ),
        )
        self.loss = FreshNegativesLoss(
            model,
            miner,
            tokens,
            Positives(data, ["train"]),
            scale=scale,
            hard_negatives=count.hard,
            free_negatives=count.free,
            corrector_weight=corrector_weight,
            share_candidates=share_candidates,
            mini_batch_size=mini_batch_size,
            matryoshka_dims=matryoshka_dims,
            learn_scale=learn_scale,
        )
        self.loss.attached = False
        self.loss.about = {"strategy": strategy, "corpus": data.name, "targets": len(data.targets)}
        self.loss.record.identity = identity(data, data.split("train").pairs, None, choice) | {
            "buffer": digest(made_by)
        }
        self.dataset = training_rows(data, roles.query)
        self.tasks: dict[str, Task] = dict.fromkeys(roles.texts, "document")
        self.tasks[roles.query] = "query"
        self.corrector_lr = corrector_lr
        pairs = data.split("train").pairs
        self._meter = Meter(
            data, pairs, tokens, scale=scale, queries=probe_queries, targets=probe_targets
        )
        self._meter_steps = meter_steps
        self._fade = steps is None
        self._planned = steps if kind.scheduled else None

    def attach(self, trainer: SentenceTransformerTrainer) -> SentenceTransformerTrainer:
        """Teach a trainer that its loss owns weights, and how queries are encoded; return it."""
        check_wrapping(trainer, self.loss)
        if own_weights(self.loss):
            told: Any = trainer.args.learning_rate_mapping or {}  # the arguments parsed any text
            trainer.args.learning_rate_mapping = {NAMES: self.corrector_lr} | told
        route(trainer, self.tasks)
        callback = KeepFresh(
            trainer, self.loss, self._meter, self._meter_steps,
            fade=self._fade, planned=self._planned,
        )  # fmt: skip
        trainer.add_callback(callback)
        self.loss.attached = True
        return trainer

    @property
    def own_weights(self) -> list[nn.Parameter]:
        """Return the weights that are not the encoders', for an optimizer of your own."""
        return own_weights(self.loss)


def _most_in_a_row(rows: Dataset, roles: Columns) -> int:
    """Count the negatives of the row that has most."""
    columns = [rows[name] for name in roles.negatives]
    return max((sum(map(_count, cells)) for cells in zip(*columns, strict=True)), default=0)


def _count(cell: Any) -> int:  # noqa: ANN401 - a text, a list of texts, or nothing
    return len(cell) if isinstance(cell, list) else int(bool(cell))


def _embed(
    model: SentenceTransformer,
    data: RetrievalDataset,
    tokens: TokenStore,
    folder: Path | None,
    progress: bool,
) -> TargetBuffer:
    """Embed the corpus into memory, or into a folder where it is found again."""
    if folder is not None:
        return open_or_embed(model, data.targets, tokens, None, folder, progress=progress)[0]
    count = len(tokens)
    with tqdm(total=count, desc="embedding", unit="target", disable=not progress) as bar:
        return TargetBuffer([embed_targets(model, tokens, np.arange(count), progress=bar)])
