"""Beside isotrieve and embedflow: the same vectors, queries and number of embedded targets.

    pip install isotrieve embedflow
    python experiments/upgrade_rivals.py --embedded 1000 FOLDER:minilm:mpnet

A folder is one of `upgrade_vectors.py`. Both packages are run as they come, by their Python
interfaces; one that is not installed is left out. Nothing is tuned on the measured queries.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from experiments.upgrade import Plan, World
from unstale.migration.adapter import QueryAdapter
from unstale.migration.on_read import FreshVectors, ReadThrough

READ = 20  # targets of each query that are read, by embedflow and by us


@final
@dataclass(frozen=True)
class Lookup:
    """An encoder for embedflow that looks vectors up by text: the number of a row."""

    model_id: str
    queries: Float[ndarray, "q d"]
    targets: Float[ndarray, "n d"]

    @property
    def dimension(self) -> int:
        """Return the width of the vectors."""
        return int(self.targets.shape[1])

    @property
    def fingerprint(self) -> str:
        """Name the encoder."""
        return self.model_id

    def encode_queries(self, texts: Sequence[str]) -> Float[ndarray, "q d"]:
        """Look queries up."""
        return self.queries[[int(text) for text in texts]]

    def encode_query(self, text: str) -> Float[ndarray, " d"]:
        """Look a query up."""
        return self.queries[int(text)]

    def encode_documents(
        self, texts: Sequence[str], batch_size: int | None = None
    ) -> Float[ndarray, "n d"]:
        """Look targets up."""
        return self.targets[[int(text) for text in texts]]

    def metadata(self) -> dict[str, Any]:
        """Name the encoder."""
        return {"model_id": self.model_id, "dimension": self.dimension}

    def close(self) -> None:
        """Hold nothing open."""


def isotrieve(world: World, rows: Int[ndarray, " n"]) -> dict[str, float]:
    """Fit its maps to the embedded targets, and rewrite the index, or the query."""
    mapping = import_module("isotrieve.mapping")
    test, taught = world.splits["test"], (world.stale[rows], world.fresh[rows])
    values = {}
    kinds = ["Ridge", "ResidualMLP"]
    if world.stale.shape[1] == world.fresh.shape[1]:
        kinds.append("OrthogonalProcrustes")  # refuses other widths
    for kind in kinds:
        fitted = getattr(mapping, f"{kind}Mapping")().fit(*taught)
        index = np.asarray(fitted.transform(world.stale), np.float32)
        index[rows] = world.fresh[rows]  # what is embedded is known
        values[f"isotrieve, {kind}, rewritten"] = world.exact(test.new @ index.T)
        if kind == "Ridge":
            back = np.asarray(fitted.inverse_transform(test.new), np.float32)
            values[f"isotrieve, {kind}, query-side"] = world.exact(back @ world.stale.T)
    return values


def embedflow(world: World, known: Int[ndarray, " n"], budget: int) -> tuple[float, int]:
    """Serve the test queries; return R@10 and how many targets were embedded in all."""
    start = import_module("embedflow").migrate
    index = import_module("embedflow.indexes.faiss_backend").NumpyIndex
    test = world.splits["test"]
    names = [str(row) for row in range(len(world.stale))]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # it writes logs where it is
        place = Path(folder)
        lines = (json.dumps({"id": name, "text": name}) + "\n" for name in names)
        (place / "documents.jsonl").write_text("".join(lines), "utf-8")
        session = start(
            index=index(world.stale, names), backend="faiss", documents=place / "documents.jsonl",
            old_model=Lookup("old", test.old, world.stale),
            new_model=Lookup("new", test.new, world.fresh),
            cache_path=place / "cache", state_path=place / "state.json", start_worker=False,
        )  # fmt: skip
        session.prewarm([names[row] for row in known], asynchronous=False)
        embedded, found = len(known), np.full((len(test.old), 11), -1)
        for query in range(len(test.old)):
            answer = session.search(
                str(query),
                top_k=11,
                candidate_depth=READ,
                max_sync_misses=min(READ, budget - embedded),
            )
            embedded += answer["migration"]["sync_misses_encoded"]
            ids = [int(result["id"]) for result in answer["results"]]
            found[query, : len(ids)] = ids
        session.close()
    return test.recall(found), embedded


def ours_on_read(
    world: World, adapter: QueryAdapter, known: Int[ndarray, " n"], budget: int
) -> tuple[float, int]:
    """Read what each test query fetches by both models, as far as the budget goes."""
    test = world.splits["test"]
    kept = FreshVectors(":memory:", world.fresh.shape[1])
    kept.add([str(row) for row in known], world.fresh[known])
    reading = ReadThrough(adapter, kept, lambda ids: world.fresh[[int(i) for i in ids]], budget)
    found = world.index.search(adapter(test.old, test.new), READ)[1]
    order = np.empty_like(found)
    for i, rows in enumerate(found):
        ids = [str(row) for row in rows]
        order[i] = rows[reading.rank(test.old[i], test.new[i], ids, world.stale[rows])]
    return test.recall(order), len(kept)


def compare(world: World, embedded: int, seed: int) -> dict[str, float]:
    """Measure every way from so many embedded targets; the last lines embed all that is read."""
    sample = world.sample(Plan(embedded, 0, 0, "rule", rewrite=False), seed)
    adapter, rows = world.adapter(sample, "rule"), sample.rows
    test, whole = world.splits["test"], len(world.stale)
    asked = world.index.search(adapter(test.old, test.new), 11)[1]
    values = dict(world.bounds()) | {"unstale, query-side": test.recall(asked)}
    values["unstale, query-side, rescored"] = ours_on_read(world, adapter, rows, embedded)[0]
    if find_spec("isotrieve"):
        values |= isotrieve(world, rows)
    none = rows[:0]
    if find_spec("embedflow"):
        values["embedflow, the same targets"] = embedflow(world, rows, embedded)[0]
        values["embedflow, what dev queries find"] = embedflow(
            world, hot(world, embedded), embedded
        )[0]
        values["embedflow, on read until spent"] = embedflow(world, none, embedded)[0]
        found, count = embedflow(world, none, whole)
        values |= {"embedflow, all that is read": found, "embedflow, embedded": count}
    found, count = ours_on_read(world, adapter, rows, whole)
    return values | {"unstale, all that is read": found, "unstale, embedded": count}


def hot(world: World, count: int) -> Int[ndarray, " n"]:
    """Return the targets that dev queries find most, by the old index: embedflow's hot set."""
    found = world.index.search(world.splits["dev"].old, READ)[1]
    worth = np.zeros(len(world.stale))
    np.add.at(worth, found, 1 / np.arange(1, READ + 1))
    return np.sort(np.argsort(-worth, kind="stable")[:count])


def main() -> None:
    """Read the flags, measure, print and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", metavar="FOLDER:OLD:NEW")
    parser.add_argument("--embedded", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=3)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    done = []
    for name in chosen.cases:
        folder, old, new = name.split(":")
        world = World(Path(folder), old, new)
        trials = [compare(world, chosen.embedded, seed) for seed in range(chosen.resamples)]
        means = {way: float(np.mean([t[way] for t in trials])) for way in trials[0]}
        done.append({"data": Path(folder).name, "old": old, "new": new, "means": means})
        print(f"{Path(folder).name}, {old} to {new}, {chosen.embedded} of {len(world.stale)}")
        for way, value in means.items():
            print(f"  {way}: {value:.4f}", flush=True)
    if chosen.output:
        chosen.output.write_text(json.dumps(done, indent=1), "utf-8")


if __name__ == "__main__":
    main()
