"""How often does the verdict name the best way to upgrade? Ask it where the truth is known.

    python experiments/upgrade_verdict.py --embedded 300,1000 --output verdict.json \
        FOLDER:minilm:mpnet FOLDER:mpnet:minilm

A case is a folder of `upgrade_vectors.py`, an old encoder and a new one, and a number of embedded
targets. Queries of all splits are shuffled together; up to 500 of them judge, as in the product,
and the truth is what each way finds for others.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.data.dataset import Qrels
from unstale.evaluation.metrics import measure
from unstale.migration.adapter import QueryAdapter
from unstale.migration.fusion import EQUAL, BothQueries, Judged, fit_adapter
from unstale.migration.index import Known
from unstale.migration.learn import Learned, learn
from unstale.migration.sample import choose
from unstale.migration.settings import MigrateSettings
from unstale.migration.validate import Pairs
from unstale.migration.vectors import ArrayVectors
from unstale.migration.verdict import Rates, advise
from unstale.migration.ways import ALL, PART, QUERY_SIDE, READ, REWRITE, STAY, WAYS, Trial
from unstale.search.best import TopK

NEAR_BEST = 0.005
JUDGES, TRUTH = 500, 5000  # queries
SPLITS = ("test", "dev", "train", "test-log", "dev-log")


@final
class World(NamedTuple):
    """Everything by both encoders, and judged queries of all splits in a random order."""

    stale: Float[ndarray, "n d"]
    fresh: Float[ndarray, "n e"]
    judged: Judged

    @classmethod
    def load(cls, folder: Path, old: str, new: str) -> "World":
        """Read what `upgrade_vectors.py` wrote."""
        splits = [s for s in SPLITS if (folder / f"{new}-{s}.npy").is_file()]
        sides = [
            np.concatenate([np.load(folder / f"{e}-{s}.npy") for s in splits]) for e in (old, new)
        ]
        pairs, start = [], 0
        for split in splits:
            pairs.append(np.load(folder / f"{split}-pairs.npy") + np.array([start, 0]))
            start += len(np.load(folder / f"{new}-{split}.npy"))
        query, target = np.concatenate(pairs).T.astype(np.int64)
        rows = np.random.default_rng(0).permutation(np.unique(query))
        queries = BothQueries(*(torch.from_numpy(side) for side in sides)).take(rows)
        judged = Judged(queries, Qrels(query, target, np.ones_like(query)), rows)
        stale, fresh = (np.load(folder / f"{e}-targets.npy") for e in (old, new))
        return cls(stale, fresh, judged)

    def case(self, embedded: int, seed: int) -> dict[str, Any]:
        """Ask for a verdict from a sample, and hold it against what other queries find."""
        order = np.random.default_rng(seed).permutation(len(self.judged.rows))
        half = min(JUDGES, len(order) // 2)
        judges = self.judged.take(np.sort(order[:half]))
        others = self.judged.take(np.sort(order[half : half + TRUTH]))
        rows, apart = choose(len(self.stale), embedded, seed)
        held = np.isin(rows, apart)
        stale, fresh = (torch.from_numpy(v[rows]) for v in (self.stale, self.fresh))
        learned = learn(stale, fresh, held, MigrateSettings(seed=seed))
        adapter = fit_adapter(stale, fresh, held, judges.queries, {})
        tried = fit_adapter(stale, fresh, held, judges.queries, {}, judging=True)
        of_judges = np.isin(judges.qrels.pairs[:, 0], judges.rows)
        relevant = torch.from_numpy(np.unique(judges.qrels.pairs[of_judges, 1]))
        taught = torch.from_numpy(~held)
        known = Known(torch.from_numpy(rows)[taught], fresh[taught])
        trial = Trial(
            ArrayVectors(Path("old.npy"), self.stale), tried, learned.corrector, known,
            Known(relevant, torch.from_numpy(self.fresh[relevant])),
            Pairs(stale[~taught], fresh[~taught]), seed,
        )  # fmt: skip
        values, weight = trial.run(judges)
        advice = advise(values, Rates(len(self.stale), embedded, 1.0, 0.0, 1.0, None))["advice"]
        true = self.truth(others, replace(adapter, weight=weight), learned, known)
        return {
            "embedded": embedded, "judges": half, "others": len(others.rows), "weight": weight,
            "advice": advice, "expected": {w: float(values[w].mean()) for w in WAYS}, "true": true,
            "best": max(true, key=lambda w: true[w]), "lost": max(true.values()) - true[advice],
        }  # fmt: skip

    def truth(
        self, asked: Judged, adapter: QueryAdapter, learned: Learned, known: Known
    ) -> dict[str, float]:
        """Return R@10 of every way, with everything embedded that the way embeds."""
        old, new = asked.queries
        stale, fresh = torch.from_numpy(self.stale), torch.from_numpy(self.fresh)
        with torch.no_grad():
            corrected = learned.corrector(stale)
        corrected[known.rows] = known.fresh
        then, now = old @ stale.T, new @ fresh.T
        found = torch.from_numpy(adapter.mixed(old.numpy(), new.numpy())) @ stale.T
        fetched = found.topk(READ, dim=1).indices
        both = EQUAL * then + (1 - EQUAL) * adapter.scale * now
        part = fetched.gather(1, both.gather(1, fetched).topk(10, dim=1).indices)
        best = {
            STAY: _best(then), QUERY_SIDE: _best(found), REWRITE: _best(new @ corrected.T),
            PART: part, ALL: _best(now),
        }  # fmt: skip
        return {way: _recall(asked, rows) for way, rows in best.items()}


def _best(scores: Float[Tensor, "q n"]) -> Int[Tensor, "q 10"]:
    return scores.topk(10, dim=1).indices


def _recall(asked: Judged, rows: Int[Tensor, "q 10"]) -> float:
    ranks = -torch.arange(10.0).expand(rows.shape)
    return float(measure(asked.qrels, asked.rows, TopK(ranks, rows))["recall@10"].mean())


def main() -> None:
    """Read the flags, run the cases, print and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", metavar="FOLDER:OLD:NEW")
    parser.add_argument("--embedded", default="300,1000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    done = []
    for name in chosen.cases:
        folder, old, new = name.split(":")
        world = World.load(Path(folder), old, new)
        for embedded in map(int, chosen.embedded.split(",")):
            found = world.case(embedded, chosen.seed)
            done.append({"data": Path(folder).name, "old": old, "new": new} | found)
            shown = " ".join(
                f"{found['expected'][w]:.3f}/{v:.3f}" for w, v in found["true"].items()
            )
            print(f"{Path(folder).name} {old} to {new}, {embedded}: {shown}", end="; ")
            print(
                f"advice {found['advice']}, best {found['best']}, lost {found['lost']:.3f}",
                flush=True,
            )
    near = sum(case["lost"] <= NEAR_BEST for case in done)
    print(f"the best way, or one within {NEAR_BEST}: {near} of {len(done)}")
    if chosen.output:
        chosen.output.write_text(json.dumps(done, indent=1), "utf-8")


if __name__ == "__main__":
    main()
