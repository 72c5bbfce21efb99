"""Does `unstale correct` keep its word? Migrate many times where the truth is known.

Everything is embedded with both encoders, so that each estimate made from a sample alone can be
held against what full re-embedding gives, and each 95% interval be seen to hold it or not.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor
from tqdm import tqdm

from unstale.data.dataset import Qrels
from unstale.data.load import load_dataset
from unstale.encoders.load import load_encoder
from unstale.evaluation.metrics import measure
from unstale.experiments.embedded import Vectors, embedded
from unstale.experiments.subset import random_subset
from unstale.files import write_json
from unstale.migration.embed import EmbeddedTargets
from unstale.migration.fitting import Fitting
from unstale.migration.index import index_chunks
from unstale.migration.queries import Asked
from unstale.migration.sample import Picked
from unstale.migration.settings import Method, MigrateSettings, Priority, Sampling, check_size
from unstale.migration.validate import Interval
from unstale.migration.vectors import ArrayVectors
from unstale.search.exact import TopK

K = 10


def run(
    output: Path,
    *,
    data: str,
    old: str = "sentence-transformers/all-MiniLM-L6-v2",
    new: str = "sentence-transformers/all-mpnet-base-v2",
    targets: int = 10_000,
    queries: int = 1500,
    asked: int = 300,
    fractions: tuple[float, ...] | list[float] = (0.02, 0.05, 0.1, 0.2),
    resamples: int = 20,
    method: Method = "auto",
    sampling: Sampling = "uniform",
    re_embed: float = 0.0,
    re_embed_by: Priority = "retrieved",
    max_length: int = 128,
    hidden: int = 1536,
    seed: int = 0,
) -> dict[str, Any]:
    """Migrate with many samples of each size; write results.json.

    Args:
        output: The folder to write to; embeddings are kept there, and resumed.
        data: A folder in BEIR layout with a split `test`.
        old: The encoder of the index that there is.
        new: The encoder to migrate to.
        targets: Use a random subset of so many.
        queries: Test queries over which the truth is measured.
        asked: How many of them a migration may validate on; as many others may guide it.
        fractions: Of the targets, to embed.
        resamples: Samples of each size.
        method: How to fit; see `unstale correct`.
        sampling: How to draw.
        re_embed: Part of the targets to embed beyond the sample.
        re_embed_by: Which those are.
        max_length: Tokens after which every text is cut, for both encoders.
        hidden: Width of the corrector.
        seed: Of the first sample.
    """
    began = time.perf_counter()
    dataset = load_dataset(data)
    dataset = random_subset(dataset, min(targets, len(dataset.targets)), seed=0)
    qrels = dataset.split("test")
    rows = np.sort(np.random.default_rng(0).permutation(qrels.query_rows)[:queries])
    vectors: dict[str, Vectors] = {}
    for side, name in (("old", old), ("new", new)):
        model = load_encoder(name, query_max_length=max_length, target_max_length=max_length)
        vectors[side] = embedded(model, dataset, rows, output / "vectors" / side)
    world = _World(vectors["old"], vectors["new"], qrels, rows)
    settings = MigrateSettings(
        method=method, sampling=sampling, re_embed=re_embed, re_embed_by=re_embed_by,
        corrector_hidden=hidden, k=K, queries=asked,
    )  # fmt: skip
    every = np.arange(len(rows))
    table = []
    for fraction in fractions:
        count = round(fraction * len(dataset.targets))
        size = check_size(count, len(dataset.targets), world.source.dim)
        trials = []
        for trial in tqdm(range(resamples), desc=f"{fraction:.0%}"):
            trials.append(world.migrate(size, replace(settings, seed=seed + trial)))
        table.append({"fraction": fraction, "embedded": size, **_gather(trials)})
    results = {
        "experiment": "migration",
        "settings": {"data": dataset.name, "old": Path(old).name, "new": Path(new).name}
        | {"targets": len(dataset.targets), "queries": len(rows), "asked": asked, "seed": seed}
        | {"method": method, "sampling": sampling, "max_length": max_length, "hidden": hidden}
        | {"resamples": resamples, "re_embed": re_embed, "re_embed_by": re_embed_by},
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
            f"{row['cosine']['covered']} of {resamples}"
            for row in table
        },
        "seconds": time.perf_counter() - began,
    }
    write_json(output / "results.json", results)
    return results


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
        found = measure(self.qrels, self.rows[asked], TopK(best.values, best.indices))
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
        guide = order[count : 2 * count if settings.guided_by else count]
        left = np.setdiff1d(order, guide)  # the truth about queries that chose nothing
        asked = Asked(
            self.new.queries[torch.from_numpy(guide)], self.new.queries[torch.from_numpy(check)],
            self.qrels, self.rows[check],
        )  # fmt: skip
        more = round(settings.re_embed * self.source.rows)
        done = Fitting(self.source, self.embed, asked, settings).run(
            lambda: size, more, curve=False
        )
        learned, sample, found = done.learned, done.sample, done.found
        pieces = index_chunks(self.source, learned.corrector, sample.known())
        index = torch.cat([vectors for _, vectors in pieces])
        with torch.no_grad():
            alone = learned.corrector(self.old.targets)
        unseen = np.setdiff1d(np.arange(len(alone)), sample.rows[~sample.held_out])
        cosine = torch.cosine_similarity(alone, self.new.targets)[torch.from_numpy(unseen)]
        truth = {
            "cosine": cosine.mean().item(),
            f"overlap@{K}": self.overlap(self.new.queries, index, left),
            "recall@10": self.recall(self.new.queries, index, left),
        }
        return {name: (interval, truth[name]) for name, interval in found.items()}


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
