"""Does `unstale correct` keep its word? Migrate many times where the truth is known.

Everything is embedded with both encoders, so that each estimate made from a sample alone can be
held against what full re-embedding gives, and each 95% interval be seen to hold it or not.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor
from tqdm import tqdm

from experiments.studies.declared import MigrationSettings
from experiments.studies.embedded import Vectors, embed_with
from experiments.studies.study import Study
from experiments.studies.subset import random_subset
from unstale.data.dataset import Qrels
from unstale.data.load import load_dataset
from unstale.evaluation import metrics
from unstale.migration.embed import EmbeddedTargets
from unstale.migration.fitting import Fitted, Fitting
from unstale.migration.index import index_chunks
from unstale.migration.queries import AskedQueries
from unstale.migration.sample import Picked
from unstale.migration.settings import MigrateSettings, check_size
from unstale.migration.validate import Interval
from unstale.migration.vectors import ArrayVectors
from unstale.search.best import TopK

K = 10


def measure(output: Path, settings: MigrationSettings) -> dict[str, Any]:
    """Migrate with many samples of each size; embeddings are kept in the folder."""
    dataset = load_dataset(settings.data)
    dataset = random_subset(dataset, min(settings.targets, len(dataset.targets)), seed=0)
    qrels = dataset.split("test")
    rows = np.sort(np.random.default_rng(0).permutation(qrels.query_rows)[: settings.queries])
    names = {"old": settings.old, "new": settings.new}
    vectors = embed_with(names, dataset, rows, output / "vectors", settings.max_length)
    world = _World(vectors["old"], vectors["new"], qrels, rows)
    every = np.arange(len(rows))
    table = []
    first = MigrateSettings(
        method=settings.method, re_embed=settings.re_embed, corrector_hidden=settings.hidden,
        k=K, queries=settings.asked, seed=settings.seed,
    )  # fmt: skip
    for fraction in settings.fractions:
        count = round(fraction * len(dataset.targets))
        size = check_size(count, len(dataset.targets), world.source.dim)
        trials = [
            world.migrate(size, replace(first, seed=settings.seed + trial))
            for trial in tqdm(range(settings.resamples), desc=f"{fraction:.0%}")
        ]
        table.append({"fraction": fraction, "embedded": size, **_gather(trials)})
    used: dict[str, Any] = {name: Path(path).name for name, path in names.items()}
    used |= {"data": dataset.name, "targets": len(dataset.targets), "queries": len(rows)}
    return {
        "settings": asdict(settings) | used,
        "full_re_embedding": {"recall@10": world.recall(*world.new[::-1], every)},
        "old_index": {
            "recall@10": world.recall(*world.old[::-1], every),
            "overlap@10": world.overlap(*world.old[::-1], every),
        },
        "table": table,
        "summary": {
            f"{row['fraction']:.0%}": f"overlap@10 {row['overlap@10']['truth']:.3f}, "
            f"R@10 {row['recall@10']['truth']:.3f}, intervals that hold the truth: "
            f"{row['overlap@10']['covered']}, {row['recall@10']['covered']}, "
            f"{row['cosine']['covered']} of {settings.resamples}"
            for row in table
        },
    }


@final
class _World:
    """Two encoders' vectors of the same data, and the truth about any index made of them."""

    def __init__(self, old: Vectors, new: Vectors, qrels: Qrels, rows: Int[ndarray, " q"]) -> None:
        self.old = old
        self.new = new
        self.qrels = qrels
        self.rows = rows
        self.source = ArrayVectors(Path("old.npy"), old.targets.numpy())
        self.true = (new.queries @ new.targets.T).topk(K, dim=1).indices

    def overlap(
        self, queries: Float[Tensor, "q e"], index: Float[Tensor, "n e"], asked: Int[ndarray, " a"]
    ) -> float:
        """Return the part of the true neighbours that an index finds, over some queries."""
        found = (queries[asked] @ index.T).topk(K, dim=1).indices
        return (self.true[asked][:, :, None] == found[:, None, :]).any(2).float().mean().item()

    def recall(
        self, queries: Float[Tensor, "q e"], index: Float[Tensor, "n e"], asked: Int[ndarray, " a"]
    ) -> float:
        """Return R@10 of an index, over some queries."""
        best = (queries[asked] @ index.T).topk(K, dim=1)
        found = metrics.measure(self.qrels, self.rows[asked], TopK(best.values, best.indices))
        return float(found["recall@10"].mean())

    def embed(self, stage: str, pick: Callable[[], Picked]) -> EmbeddedTargets:
        """Look fresh vectors up."""
        picked = pick()
        return EmbeddedTargets(picked, self.new.targets[torch.from_numpy(picked.rows)], 0.0)

    def migrate(self, size: int, settings: MigrateSettings) -> dict[str, tuple[Interval, float]]:
        """Migrate once; return each estimate with its truth."""
        order = np.random.default_rng(settings.seed + 10_000).permutation(len(self.rows))
        count = settings.queries
        check = np.sort(order[:count])
        guide = order[count : 2 * count if settings.re_embed else count]
        left = np.setdiff1d(order, guide)  # the truth about queries that chose nothing
        asked = AskedQueries(
            self.new.queries[torch.from_numpy(guide)], self.new.queries[torch.from_numpy(check)],
            self.qrels, self.rows[check],
        )  # fmt: skip
        fitting = Fitting(self.source, self.embed, asked, settings)
        done = fitting.run(size, round(settings.re_embed * self.source.rows), curve=False)
        truth = self._truth(done, left)
        return {name: (interval, truth[name]) for name, interval in done.found.items()}

    def _truth(self, done: Fitted, asked: Int[ndarray, " a"]) -> dict[str, float]:
        """Measure the corrected index against what full re-embedding gives."""
        sample, corrector = done.sample, done.learned.corrector
        pieces = index_chunks(self.source, corrector, sample.known())
        index = torch.cat([vectors for _, vectors in pieces])
        with torch.no_grad():
            alone = corrector(self.old.targets)
        unseen = np.setdiff1d(np.arange(len(alone)), sample.rows[~sample.held_out])
        cosine = torch.cosine_similarity(alone, self.new.targets)[torch.from_numpy(unseen)]
        return {
            "cosine": cosine.mean().item(),
            f"overlap@{K}": self.overlap(self.new.queries, index, asked),
            "recall@10": self.recall(self.new.queries, index, asked),
        }


def _gather(trials: list[dict[str, tuple[Interval, float]]]) -> dict[str, Any]:
    """Average the truths and the estimates, and count the intervals that hold the truth."""
    gathered = {}
    for name in trials[0]:
        pairs = [t[name] for t in trials]
        gathered[name] = {
            "truth": sum(truth for _, truth in pairs) / len(pairs),
            "estimate": sum(i.value for i, _ in pairs) / len(pairs),
            "half_width": sum((i.high - i.low) / 2 for i, _ in pairs) / len(pairs),
            "covered": sum(i.holds(truth) for i, truth in pairs),
        }
    return gathered


STUDY = Study("migration", MigrationSettings, measure)
