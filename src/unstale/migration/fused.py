"""Serve by both models: fit the query adapter, and say what each way of serving would give."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries, preprocess
from unstale.integrity import digest
from unstale.migration.adapter import QueryAdapter
from unstale.migration.embed import Stages
from unstale.migration.fitting import Fitted
from unstale.migration.fusion import LEAST_JUDGED, BothQueries, Judged, fit_adapter
from unstale.migration.growth import SERVED, growth, replay
from unstale.migration.index import Known
from unstale.migration.order import check_old_model
from unstale.migration.queries import Parted
from unstale.migration.sample import Picked
from unstale.migration.settings import MigrateSettings
from unstale.migration.stale import StaleVectors
from unstale.migration.validate import Pairs
from unstale.migration.verdict import Rates, advise
from unstale.migration.ways import Trial

RELEVANT = "relevant"
CHECKED = 32  # sampled targets that the old model embeds again, to see that it made the index


def relevant_stage(rows: Int[ndarray, " n"]) -> str:
    """Name the stage that embeds some relevant targets."""
    return f"{RELEVANT}-{digest(rows.tolist())[:8]}"


@final
@dataclass(frozen=True)
class Fused:
    """An adapter, what each way of serving is expected to give, and what was embedded for that."""

    adapter: QueryAdapter
    verdict: dict[str, Any]  # empty without judged queries
    relevant: int


@final
@dataclass(frozen=True)
class Fusing:
    """What the ways of serving are weighed by."""

    source: StaleVectors
    dataset: RetrievalDataset
    model: SentenceTransformer
    old_model: SentenceTransformer
    settings: MigrateSettings

    def run(self, done: Fitted, queries: Parted, stages: Stages) -> Fused:
        """Fit the adapter to the sample; judged queries choose its weight, and judge the ways."""
        sample = done.sample
        self._check_old_model(done)
        held = torch.from_numpy(sample.held_out)
        both = self._queries(queries.check)
        asking = both or BothQueries(sample.stale[held], sample.fresh[held])
        about = {"targets": len(sample.rows), "weight_by": "rule"}
        adapter = fit_adapter(
            sample.stale, sample.fresh, sample.held_out, asking, about, asked_for=sample.asked_for
        )
        if both is None or queries.qrels is None or len(queries.check) < LEAST_JUDGED:
            return Fused(adapter, {}, 0)
        judged = Judged(both, queries.qrels, queries.check)
        rows = np.intersect1d(queries.qrels.pairs[:, 0], judged.rows)
        pairs = queries.qrels.pairs
        wanted = np.unique(pairs[np.isin(pairs[:, 0], rows), 1])
        # Other queries may judge when a migration is resumed with more to embed.
        found = stages(relevant_stage(wanted), lambda: Picked(wanted, wanted))
        relevant = Known(torch.from_numpy(found.picked.rows), found.fresh)
        # What the trial judges by, it has not learned from; the adapter learns from all.
        taught = sample.take((~sample.held_out).nonzero()[0])
        tried = fit_adapter(
            sample.stale, sample.fresh, sample.held_out, asking, about,
            asked_for=sample.asked_for, judging=True,
        )  # fmt: skip
        trial = Trial(
            self.source, tried, done.learned.corrector, taught.known(), relevant,
            Pairs(sample.stale[held], sample.fresh[held]), self.settings.seed,
        )  # fmt: skip
        values, weight = trial.run(judged)
        rates = self._rates(done, len(wanted))
        verdict = advise(values, rates)
        if earlier := self._queries(self._others(queries)):
            grown = replay(self.source, tried, judged.queries, earlier, sample.rows)
            verdict["growth"] = growth(grown, values, rates)
        about |= {"weight_by": "judgements", "judged": len(judged.rows)}
        return Fused(replace(adapter, weight=weight, about=about), verdict, len(wanted))

    def _others(self, queries: Parted) -> Int[ndarray, " n"]:
        """Draw queries that do not judge."""
        others = np.setdiff1d(np.arange(len(self.dataset.queries)), queries.check)
        return np.random.default_rng(self.settings.seed).permutation(others)[: SERVED[-1]]

    def _queries(self, rows: Int[ndarray, " n"]) -> BothQueries | None:
        """Embed queries with both models; None if there are none."""
        texts = self.dataset.queries.take(rows)
        if not texts:
            return None
        return BothQueries(embed_queries(self.old_model, texts), embed_queries(self.model, texts))

    def _check_old_model(self, done: Fitted) -> None:
        """Let the old model embed a few sampled targets again."""
        rows = done.sample.rows[:: max(1, len(done.sample.rows) // CHECKED)][:CHECKED]
        texts = self.dataset.targets.take(rows)
        again = torch.from_numpy(np.asarray(self.old_model.encode_document(texts), np.float32))
        stale = torch.from_numpy(self.source.take(rows))
        check_old_model(again, stale, str(self.source.path))

    def _rates(self, done: Fitted, relevant: int) -> Rates:
        """Return the speed and the price of the new model."""
        sample = done.sample
        rows = sample.rows[:: max(1, len(sample.rows) // CHECKED)]
        texts = self.dataset.targets.take(rows)
        tokens = preprocess(self.model, texts, "document").get("attention_mask")
        length = float(tokens.sum()) / len(texts) if isinstance(tokens, torch.Tensor) else 0.0
        return Rates(
            self.source.rows, len(sample.rows) + relevant, sample.seconds / len(sample.rows),
            done.seconds, length, self.settings.price,
        )  # fmt: skip
