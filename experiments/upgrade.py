"""Does an upgrade win? Serve an untouched HNSW index by both models, over many resamples.

    python experiments/upgrade.py --vectors FOLDER --old minilm --new mpnet --embedded 1000

FOLDER has `ENCODER-targets.npy` and `ENCODER-SPLIT.npy` of unit vectors, for each encoder, and
`SPLIT-pairs.npy`, the relevant (query, target) rows. The weight is chosen on `dev`, never on
`test`, which is measured; `--weight rule` uses no judgement at all.
"""

import argparse
import json
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
from unstale.migration.fusion import BothQueries, Judged, choose_weight, fit_adapter, weigh
from unstale.migration.joined import JoinedQueries
from unstale.migration.learn import learn
from unstale.migration.sample import Picked, choose
from unstale.migration.settings import MigrateSettings
from unstale.migration.vectors import ArrayVectors

FETCH, READ = 50, 20  # targets that the index fetches, and that the new model reads


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

    def __init__(self, folder: Path, old: str, new: str) -> None:
        self.stale, self.fresh = (np.load(folder / f"{e}-targets.npy") for e in (old, new))
        self.splits = {
            s: Split(
                np.load(folder / f"{old}-{s}.npy"), np.load(folder / f"{new}-{s}.npy"),
                np.load(folder / f"{s}-pairs.npy"),
                np.load(path) if (path := folder / f"{s}-self.npy").is_file() else None,
            )
            for s in ("dev", "test")
        }  # fmt: skip
        self.source = ArrayVectors(Path(f"{old}.npy"), self.stale)
        self.index = faiss.IndexHNSWFlat(self.stale.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction, self.index.hnsw.efSearch = 200, 200
        self.index.add(self.stale)

    def exact(self, scores: Float[ndarray, "q n"]) -> float:
        """Return R@10 of the test queries by the scores of all targets."""
        best = torch.from_numpy(scores).topk(11, dim=1).indices
        return self.splits["test"].recall(best.numpy())

    def judged(self, split: str) -> Judged:
        """Return a split's queries with their answers, to choose a weight by."""
        found = self.splits[split]
        queries = BothQueries(torch.from_numpy(found.old), torch.from_numpy(found.new))
        query, target = found.pairs.T.astype(np.int64)
        rows = np.unique(query)
        return Judged(queries.take(rows), Qrels(query, target, np.ones_like(query)), rows)

    def adapter(self, sample: Picked, by: str) -> QueryAdapter:
        """Fit an adapter to the sample, once it is embedded."""
        rows, held = sample
        judged = self.judged("dev")
        fresh, stale = (torch.from_numpy(v[rows]) for v in (self.fresh, self.stale))
        fitted = fit_adapter(stale, fresh, np.isin(rows, held), judged.queries, {})
        if by == "rule":
            return fitted
        return replace(fitted, weight=choose_weight(weigh(fitted, self.source, judged)))

    def rewritten(self, sample: Picked, seed: int) -> Float[ndarray, "n e"]:
        """Return what `--way rewrite` writes: fresh vectors of the sample, and corrected ones."""
        rows, held = sample
        stale, fresh = torch.from_numpy(self.stale), torch.from_numpy(self.fresh)
        settings = MigrateSettings(seed=seed)
        learned = learn(stale[rows], fresh[rows], np.isin(rows, held), settings)
        with torch.no_grad():
            written = learned.corrector(stale)
        written[rows] = fresh[rows]
        return written.numpy()

    def serve(self, embedded: int, seed: int, by: str) -> dict[str, float]:
        """Measure one resample: the search alone, rescored, read with both, and new indices."""
        sample = choose(len(self.stale), embedded, seed)
        adapter, rows, test = self.adapter(sample, by), sample.rows, self.splits["test"]
        found = self.index.search(adapter(test.old, test.new), FETCH + 1)[1]
        known = np.full_like(self.fresh, np.nan)
        known[rows] = self.fresh[rows]
        even = replace(adapter, weight=0.5)
        new, join = self.rewritten(sample, seed), JoinedQueries(adapter.weight, adapter.scale)
        return {
            "weight": adapter.weight, "old_part": adapter.old_part, "new_part": adapter.new_part,
            "query-side": test.recall(found[:, :11]),
            "query-side, rescored": self._rescored(adapter, found, known),
            f"read {READ}": self._rescored(even, found[:, :READ], self.fresh),
            "rewrite": self.exact(test.new @ new.T),
            "rewrite --fuse": self.exact(join(test.old, test.new) @ join(self.stale, new).T),
        }  # fmt: skip

    def _rescored(
        self, adapter: QueryAdapter, found: Int[ndarray, "q k"], fresh: Float[ndarray, "n e"]
    ) -> float:
        test, order = self.splits["test"], np.empty_like(found)
        for i, rows in enumerate(found):
            scores = adapter.rescore(test.old[i], test.new[i], self.stale[rows], fresh[rows])
            order[i] = rows[np.argsort(-scores)]
        return test.recall(order)

    def bounds(self) -> dict[str, float]:
        """Measure the old index, exactly and by HNSW, full re-embedding, and both models."""
        test = self.splits["test"]
        old, new = test.old @ self.stale.T, test.new @ self.fresh.T
        scale = old.std(axis=1).mean() / new.std(axis=1).mean()
        return {
            "stay": self.exact(old),
            "stay, HNSW": test.recall(self.index.search(test.old, 11)[1]),
            "re-embed all": self.exact(new),
            "re-embed all, both models": self.exact(old + scale * new),
        }


def main() -> None:
    """Read the flags, measure, print and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--old", default="minilm")
    parser.add_argument("--new", default="mpnet")
    parser.add_argument("--embedded", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=20)
    parser.add_argument("--weight", choices=["dev", "rule"], default="dev")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    world = World(chosen.vectors, chosen.old, chosen.new)
    bounds = world.bounds()
    print({name: round(value, 4) for name, value in bounds.items()}, flush=True)
    trials: list[dict[str, Any]] = []
    for seed in range(chosen.resamples):
        trials.append(world.serve(chosen.embedded, seed, chosen.weight))
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
