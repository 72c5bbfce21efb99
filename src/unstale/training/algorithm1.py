"""Algorithm 1 of the paper: train the encoders on fresh candidates that a miner chooses.

It is a sentence-transformers loss, because only a loss sees both the model and the batch on the
training step: a data collator runs ahead of it and cannot be fresh. Rows of the training set look
like `{"query": text, "label": [query row, positive row]}`.
"""

import time
from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional

from unstale.data.dataset import Positives
from unstale.data.tokens import TokenStore
from unstale.distributed import gather, share
from unstale.encoders.embed import dimension, embed, is_cosine
from unstale.errors import InputError
from unstale.miners.miner import Miner, Queries
from unstale.training.candidates import encode, everyone, full_precision, membership
from unstale.training.card import CITATION
from unstale.training.free import rectify
from unstale.training.gradcache import in_mini_batches
from unstale.training.matryoshka import nested_dims, truncate
from unstale.training.record import Record
from unstale.training.scale import Scale


@final
class FreshNegativesLoss(nn.Module):
    """The task loss of the encoders and the miner's own loss, each moving only its own weights.

    Args:
        model: The encoders f and g.
        miner: Chooses the candidates, and may own a corrector.
        tokens: The targets' tokens by row.
        positives: The rows that are never a query's negatives.
        scale: The paper's beta; it multiplies the scores.
        hard_negatives: Targets that the miner chooses for each query, before the union.
        free_negatives: Further ones that are not encoded: as the miner sees them they teach the
            queries' encoder alone. See `_split_loss`.
        corrector_weight: Multiplies the miner's loss.
        share_candidates: Let every query of the batch see the candidates of all, as in the
            paper's appendix; otherwise each sees its own.
        mini_batch_size: Encode so many texts at a time and compute them again on the way back
            (GradCache): the same gradients with less memory, for one more pass. 0: all at once.
        matryoshka_dims: Train the first so many dimensions, too, as vectors of their own; the task
            loss is the mean over these and the whole. Candidates are mined by the whole.
        learn_scale: Train the scale, from `scale` on, at the corrector's learning rate.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        miner: Miner,
        tokens: TokenStore,
        positives: Positives,
        *,
        scale: float = 20.0,
        hard_negatives: int = 4,
        free_negatives: int = 0,
        corrector_weight: float = 10.0,
        share_candidates: bool = True,
        mini_batch_size: int = 0,
        matryoshka_dims: Sequence[int] = (),
        learn_scale: bool = False,
    ) -> None:
        super().__init__()
        if min(hard_negatives, free_negatives, corrector_weight) < 0 or scale <= 0:
            raise InputError(
                f"expected scale > 0 and the rest >= 0: scale {scale}, hard negatives "
                f"{hard_negatives}, free ones {free_negatives}, weight {corrector_weight}"
            )
        self.dims = nested_dims(matryoshka_dims, dimension(model))
        self.model = model
        self.miner = miner
        self.scale = Scale(scale, learnt=learn_scale)
        self.hard_negatives = hard_negatives
        self.free_negatives = free_negatives
        self.corrector_weight = corrector_weight
        self.share_candidates = share_candidates
        self.mini_batch_size = mini_batch_size
        self.attached = True  # a stock trainer has to be told what it cannot know
        self.about: dict[str, Any] = {}  # what the model card is to say besides
        self.record = Record()  # the trainer keeps its step
        self.tokens = tokens
        self._positives = positives
        self._unit = is_cosine(model)

    def forward(
        self, features: list[dict[str, Any]], labels: Tensor | None
    ) -> dict[str, Float[Tensor, ""]]:
        """Run one step of Algorithm 1 on a batch, up to the two losses.

        Labels are (b, 2): the rows of a query and of its positive. An evaluation set, whatever its
        labels, is measured by `_in_batch`, which leaves miner and counters alone.
        """
        if labels is None or not self.model.training:
            return {"task_loss": self._in_batch(features)}
        if not self.attached:
            raise InputError("call fresh.attach(trainer) before training: it keeps the step")
        self.record.batch = labels[:, 0].tolist()
        query_rows, label = labels.T.contiguous()
        positives = self._known_positives(query_rows)
        queries = self._embed_queries(features[0]).float()  # f(x), (b, d)
        if not torch.isfinite(queries).all():
            raise self.record.not_finite("query embeddings")

        # Set S using exp(scale f(x).h(g'(y))) via top-k, and include the supervised label. Where
        # there are several processes, B is the batch of all of them, and b this one's part.
        every_label = gather(label)[:, None]  # (B, 1)
        mined = self._mine(everyone(queries, query_rows, positives, self.record.step))  # (B, m)
        own = share(len(mined))
        if (dropped := self.miner.dropped()) is not None:
            self.record.counters.count_dropped(dropped)
            positives = torch.cat([positives, dropped.spared[own]], dim=1)  # no negatives either
        mined = torch.where(mined < 0, every_label, mined)  # none: the label is there anyway
        mined, free = self._without_free(mined)
        rows, place = torch.cat([every_label, mined], dim=1).unique(return_inverse=True)
        place = place[own]  # (b, 1 + m)
        within = None if self.share_candidates else membership(place, len(rows))

        # The truncated softmax P over fresh embeddings of the candidates.
        fresh = self._encode(rows).float()  # g(y), (c, d)
        with full_precision(fresh):
            absent = self._absent(rows, place[:, 0], positives, within)
            if self.free_negatives:
                extra = free.unique()
                extra = extra[~torch.isin(extra, rows)]
                task = self._split_loss(
                    queries, fresh, rows, place[:, 0], absent, extra, positives
                )  # fmt: skip
            else:
                task = self._task_loss(queries, fresh, place[:, 0], absent)

            # The same candidates teach the corrector; nothing here reaches the encoders.
            correction = self.miner.loss(queries.detach(), fresh.detach(), rows, within)
        self._check(task, correction, fresh, rows)
        return {"task_loss": task, "corrector_loss": self.corrector_weight * correction}

    def _check(
        self,
        task: Float[Tensor, ""],
        correction: Float[Tensor, ""],
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
    ) -> None:
        """Stop at a loss that is not finite, and say what made it so."""
        if torch.isfinite(task + correction):
            return
        bad = ~torch.isfinite(fresh).all(dim=1)
        if bad.any():
            raise self.record.not_finite("fresh embeddings", rows[bad])
        what = "the corrector's loss" if task.isfinite() else "the task loss"
        raise self.record.not_finite(what)

    def _known_positives(self, query_rows: Int[Tensor, " b"]) -> Int[Tensor, "b p"]:
        rows = self._positives(query_rows.cpu().numpy())
        return torch.from_numpy(rows).to(query_rows.device)

    def _mine(self, queries: Queries) -> Int[Tensor, "b m"]:
        start = time.perf_counter()
        with torch.no_grad(), full_precision(queries.vectors):
            mined = self.miner.mine(queries, self.hard_negatives + self.free_negatives)
        self.record.counters.mining_seconds += time.perf_counter() - start
        return mined

    def _without_free(
        self, mined: Int[Tensor, "b m"]
    ) -> tuple[Int[Tensor, "b e"], Int[Tensor, "b f"]]:
        """Part what is to be encoded from what is not: the first are the hardest."""
        first, last = self.hard_negatives, self.hard_negatives + self.free_negatives
        return torch.cat([mined[:, :first], mined[:, last:]], dim=1), mined[:, first:last]

    def _embed_queries(self, features: dict[str, Any]) -> Float[Tensor, "b d"]:
        def encode(part: slice) -> Float[Tensor, "m d"]:
            rows = {k: v[part] if torch.is_tensor(v) else v for k, v in features.items()}
            return embed(self.model, rows, "query", unit=self._unit)

        if "offsets" in features:  # flat tokens: static embeddings, with no activations to save
            return embed(self.model, features, "query", unit=self._unit)
        return in_mini_batches(encode, len(features["input_ids"]), self.mini_batch_size)

    def _encode(self, rows: Int[Tensor, " c"]) -> Float[Tensor, "c d"]:
        self.record.counters.targets_trained += len(rows)
        return encode(
            self.model, self.tokens, rows, unit=self._unit, mini_batch_size=self.mini_batch_size
        )

    def _absent(
        self,
        rows: Int[Tensor, " c"],
        label: Int[Tensor, " b"],
        positives: Int[Tensor, "b p"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Bool[Tensor, "b c"]:
        """Mark what is not in a query's softmax: known positives are not negatives."""
        absent = (rows[None, :, None] == positives[:, None, :]).any(dim=2)
        if within is not None:
            absent = absent | ~within
        return absent.scatter_(1, label[:, None], False)

    def _task_loss(
        self,
        queries: Float[Tensor, "b d"],
        fresh: Float[Tensor, "c d"],
        label: Int[Tensor, " b"],
        absent: Bool[Tensor, "b c"],
        less: Float[Tensor, " c"] | float = 0.0,
        *,
        learn_scale: bool = True,
    ) -> Float[Tensor, ""]:
        """Take the cross-entropy with the one-hot P*; the mean over nested vectors, if any.

        `less` is taken from the targets' logits.
        """
        losses, scale = [], self.scale()
        if torch.is_tensor(scale) and not learn_scale:
            scale = scale.detach()
        for dim in self.dims:
            f, g = (truncate(v, dim, unit=self._unit) for v in (queries, fresh))
            logits = (scale * f @ g.T - less).masked_fill(absent, -torch.inf)
            losses.append(functional.cross_entropy(logits, label))
        return torch.stack(losses).mean()

    def _split_loss(
        self,
        queries: Float[Tensor, "b d"],
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        label: Int[Tensor, " b"],
        absent: Bool[Tensor, "b c"],
        extra: Int[Tensor, " e"],
        positives: Int[Tensor, "b p"],
    ) -> Float[Tensor, ""]:
        """Teach the queries by fresh and free targets, and the targets by the fresh ones alone.

        In one softmax for both, a target would learn to differ from all that is cached: only what
        is fresh is ever right there, and the encoders collapse. The value is the queries' loss.
        """
        with torch.no_grad():
            view = self.miner.view(torch.cat([rows, extra]))
        if view is None:
            raise InputError("free negatives need a strategy that caches embeddings")
        seen, free = view.searched.split([len(rows), len(extra)])
        missed = seen - fresh.detach()
        free, overrated = rectify(free, missed, queries.detach(), label, self.scale())
        known = (extra[None, :, None] == positives[:, None, :]).any(dim=2)
        every, missing = torch.cat([fresh.detach(), free]), torch.cat([absent, known], 1)
        less = torch.cat([overrated.new_zeros(len(rows)), overrated.expand(len(extra))])
        by_query = self._task_loss(queries, every, label, missing, less)
        by_target = self._task_loss(queries.detach(), fresh, label, absent, learn_scale=False)
        return by_query + by_target - by_target.detach()

    def _in_batch(self, features: list[dict[str, Any]]) -> Float[Tensor, ""]:
        """Measure (query, positive, negative, ...) columns by the softmax over the batch itself."""
        if self.model.training:
            rule = "a training set needs a column `label`, [query row, positive row]"
            raise InputError(f"{rule}: train on the dataset that FreshNegatives made")
        if len(features) < 2:
            raise InputError("an evaluation set needs a column of queries and one of positives")
        queries = embed(self.model, features[0], "query", unit=self._unit).float()
        columns = [embed(self.model, f, "document", unit=self._unit) for f in features[1:]]
        logits = self.scale() * queries @ torch.cat(columns).float().T
        return functional.cross_entropy(logits, torch.arange(len(queries), device=logits.device))

    def get_config_dict(self) -> dict[str, Any]:
        """Tell the model card how the model was trained."""
        names = "hard_negatives free_negatives corrector_weight share_candidates mini_batch_size"
        own = {name: getattr(self, name) for name in names.split()}
        return {**self.about, "scale": self.scale.start, **own, "dims": self.dims}

    @property
    def citation(self) -> str:
        """Return what the model card is to cite."""
        return CITATION
