"""Does an upgrade win? Serve an untouched HNSW index by both models, over many resamples.

    python experiments/upgrade.py --vectors FOLDER --old minilm --new mpnet --embedded 1000

FOLDER is what `upgrade_vectors.py` wrote. Of the embedded targets, `--re-embed` are those that a
log of other queries finds most, as `unstale correct --re-embed` chooses them; each resample draws
its own sample and its own log. The weight of the models is chosen on `dev`, never on `test`, which
is measured; `--weight rule` uses no judgement at all.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, final

import faiss
import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from unstale.data.dataset import Qrels
from unstale.migration.adapter import QueryAdapter
from unstale.migration.embed import EmbeddedTargets
from unstale.migration.fitting import Fitting, Sampled
from unstale.migration.fusion import BothQueries, Judged, choose_weight, fit_adapter, weigh
from unstale.migration.joined import JoinedQueries
from unstale.migration.learn import learn
from unstale.migration.queries import AskedQueries
from unstale.migration.sample import Picked, choose
from unstale.migration.settings import MigrateSettings
from unstale.migration.vectors import ArrayVectors

READ = 20  # fetched targets that the new model reads


@final
class Plan(NamedTuple):
    """What is embedded, and measured."""

    embedded: int
    re_embed: int  # of them, chosen by logged queries
    log: int  # queries
    weight: str
    rewrite: bool


@final
class Split(NamedTuple):
    """Queries of both models, and which targets are relevant to each."""

    old: Float[ndarray, "q d"]
    new: Float[ndarray, "q e"]
    pairs: Int[ndarray, "p 2"]
    own: Int[ndarray, " q"] | None  # the target that is the query itself, as in ArguAna

    def recall(self, rows: Int[ndarray, "q k"]) -> float:
        """Return R@10 of ranked rows."""
        relevant = [set[int]() for _ in self.old]
        for query, target in self.pairs.tolist():
            relevant[query].add(target)
        kept = [
            [r for r in found if self.own is None or r != self.own[i]][:10]
            for i, found in enumerate(rows.tolist())
        ]
        hits = [len(r & set(k)) / len(r) for r, k in zip(relevant, kept, strict=True) if r]
        return float(np.mean(hits))


@final
class World:
    """Everything embedded by both encoders, so that the truth is known."""

    def __init__(self, folder: Path, old: str, new: str, split: str = "test") -> None:
        self.stale, self.fresh = (np.load(folder / f"{e}-targets.npy") for e in (old, new))
        self.splits = {
            s: Split(
                np.load(folder / f"{old}-{s}.npy"), np.load(folder / f"{new}-{s}.npy"),
                np.load(folder / f"{s}-pairs.npy"),
                np.load(path) if (path := folder / f"{s}-self.npy").is_file() else None,
            )
            for s in ("dev", "test")
        }  # fmt: skip
        self.dev, self.asked = self.splits["dev"], self.splits[split]
        self.log = folder / f"{new}-{split}-log.npy"
        self.source = ArrayVectors(Path(f"{old}.npy"), self.stale)
        self.index = faiss.IndexHNSWFlat(self.stale.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction, self.index.hnsw.efSearch = 200, 200
        self.index.add(self.stale)

    def exact(self, scores: Float[ndarray, "q n"]) -> float:
        """Return R@10 of the measured queries by the scores of all targets."""
        return self.asked.recall(torch.from_numpy(scores).topk(11, dim=1).indices.numpy())

    def bounds(self) -> dict[str, float]:
        """Measure the old index, exactly and by HNSW, full re-embedding, and both models."""
        asked = self.asked
        old, new = asked.old @ self.stale.T, asked.new @ self.fresh.T
        scale = old.std(axis=1).mean() / new.std(axis=1).mean()
        return {
            "stay": self.exact(old),
            "stay, HNSW": asked.recall(self.index.search(asked.old, 11)[1]),
            "re-embed all": self.exact(new),
            "re-embed all, both models": self.exact(old + scale * new),
        }

    def sample(self, plan: Plan, seed: int) -> Sampled:
        """Draw targets, and add those that a draw of logged queries finds most."""

        def embed(_: str, pick: Callable[[], Picked]) -> EmbeddedTargets:
            picked = pick()
            return EmbeddedTargets(picked, torch.from_numpy(self.fresh[picked.rows]), 0.0)

        uniform, settings = plan.embedded - plan.re_embed, MigrateSettings(seed=seed)
        found = embed("sample", lambda: choose(len(self.stale), uniform, seed))
        sample = Sampled.of(self.source, found)
        if not plan.re_embed:
            return sample
        log = np.load(self.log)
        drawn = np.random.default_rng(seed).permutation(len(log))[: plan.log]
        asked = AskedQueries(torch.from_numpy(log[drawn]), None)
        learned = learn(sample.stale, sample.fresh, sample.held_out, settings)
        return Fitting(self.source, embed, asked, settings).enlarge(sample, learned, plan.re_embed)

    def adapter(self, sample: Sampled, by: str) -> QueryAdapter:
        """Fit an adapter to the sample, once it is embedded."""
        queries = BothQueries(torch.from_numpy(self.dev.old), torch.from_numpy(self.dev.new))
        fitted = fit_adapter(
            sample.stale, sample.fresh, sample.held_out, queries, {}, asked_for=sample.asked_for
        )
        if by == "rule":
            return fitted
        query, target = self.dev.pairs.T.astype(np.int64)
        rows = np.unique(query)
        judged = Judged(queries.take(rows), Qrels(query, target, np.ones_like(query)), rows)
        return replace(fitted, weight=choose_weight(weigh(fitted, self.source, judged)))

    def rewritten(self, sample: Sampled, seed: int) -> Float[ndarray, "n e"]:
        """Return what `--way rewrite` writes: fresh vectors of the sample, and corrected ones."""
        learned = learn(sample.stale, sample.fresh, sample.held_out, MigrateSettings(seed=seed))
        with torch.no_grad():
            written = learned.corrector(torch.from_numpy(self.stale))
        written[torch.from_numpy(sample.rows)] = sample.fresh
        return written.numpy()

    def serve(self, plan: Plan, seed: int) -> dict[str, float]:
        """Measure one resample: the search alone, read with both models, and new indices."""
        sample, asked = self.sample(plan, seed), self.asked
        adapter = self.adapter(sample, plan.weight)
        found = self.index.search(adapter(asked.old, asked.new), READ + 1)[1]
        served = {
            "weight": adapter.weight,
            "relevant embedded": float(np.isin(asked.pairs[:, 1], sample.rows).mean()),
            "query-side": asked.recall(found[:, :11]),
            f"read {READ}": self._read(replace(adapter, weight=0.5), found[:, :READ]),
        }
        if plan.rewrite:
            new, join = self.rewritten(sample, seed), JoinedQueries(adapter.weight, adapter.scale)
            joined = join(asked.old, asked.new) @ join(self.stale, new).T
            served |= {"rewrite": self.exact(asked.new @ new.T), "--fuse": self.exact(joined)}
        return served

    def _read(self, adapter: QueryAdapter, found: Int[ndarray, "q k"]) -> float:
        """Rank what was fetched by both models, with all of it embedded."""
        asked, order = self.asked, np.empty_like(found)
        for i, rows in enumerate(found):
            some = self.stale[rows], self.fresh[rows]
            order[i] = rows[np.argsort(-adapter.rescore(asked.old[i], asked.new[i], *some))]
        return asked.recall(order)


def main() -> None:
    """Read the flags, measure, print and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--old", default="minilm")
    parser.add_argument("--new", default="mpnet")
    parser.add_argument("--split", choices=["dev", "test"], default="test")
    parser.add_argument("--embedded", type=int, default=1000)
    parser.add_argument("--re-embed", type=int, default=0)
    parser.add_argument("--log", type=int, default=500, help="Logged queries of a resample.")
    parser.add_argument("--seed", type=int, default=0, help="Of the first resample.")
    parser.add_argument("--resamples", type=int, default=20)
    parser.add_argument("--weight", choices=["dev", "rule"], default="dev")
    parser.add_argument("--rewrite", action="store_true", help="Measure new indices, too.")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    world = World(chosen.vectors, chosen.old, chosen.new, chosen.split)
    plan = Plan(chosen.embedded, chosen.re_embed, chosen.log, chosen.weight, chosen.rewrite)
    bounds = world.bounds()
    print({name: round(value, 4) for name, value in bounds.items()}, flush=True)
    trials: list[dict[str, Any]] = []
    for seed in range(chosen.seed, chosen.seed + chosen.resamples):
        trials.append(world.serve(plan, seed))
        print(seed, {name: round(value, 4) for name, value in trials[-1].items()}, flush=True)
    for name in trials[0]:
        values = [t[name] for t in trials]
        print(f"{name}: mean {np.mean(values):.4f}, least {min(values):.4f}")
    if chosen.output:
        chosen.output.write_text(
            json.dumps({"bounds": bounds, "trials": trials}, indent=1), "utf-8"
        )


if __name__ == "__main__":
    main()
