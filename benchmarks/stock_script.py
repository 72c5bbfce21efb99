"""Three lines changed in a stock script: is recall better after the same time?

The script of examples/before.py (MultipleNegativesRankingLoss, no duplicates in a batch) against
that of examples/after.py (FreshNegatives): same encoder, rows, seed, optimizer, rate, warmup and
evaluation, the stock trainer both times. The second trains for `--steps`; the first for as many,
and for as many as fit into the seconds that the second took from a loaded model to a saved one,
tokenising, embedding and mining included. With `--json FILE` every finished run is kept, and the
same command goes on after an interruption.

    python benchmarks/stock_script.py --data docstrings --seeds 0,1,2 --json FILE
"""

import argparse
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from unittest.mock import patch

from sentence_transformers import SentenceTransformerTrainer
from transformers import set_seed
from vs_sentence_transformers import SECONDS, STEPS, Benchmark, Clock, fitted, table

from unstale import FreshNegatives
from unstale.declare import parse_seeds
from unstale.files import write_json

BEFORE, AFTER = "stock script", "three lines changed"


def after(bench: Benchmark, seed: int) -> dict:
    """Run the changed script."""
    chosen, clock = bench.chosen, Clock()
    set_seed(seed)
    model, began = bench.start(), time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, UNSTALE_CACHE=folder),  # tokenising counts
    ):
        fresh = FreshNegatives(
            model, bench.pairs, bench.dataset.targets, strategy=chosen.strategy, seed=seed,
        )  # fmt: skip
        columns = fresh.dataset.column_names[:1]  # the label is no text
        args = bench.arguments(folder, model, columns, seed, chosen.steps, chosen.batch_size)
        trainer = SentenceTransformerTrainer(
            model, args, fresh.dataset, loss=fresh.loss, callbacks=[clock]
        )
        fresh.attach(trainer).train()
        model.save_pretrained(str(Path(folder, "model")))
    seconds = time.perf_counter() - began
    return {"metrics": bench.evaluate(model), "seconds": seconds, "steps": len(clock.ends)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--max-length", type=int, help="of queries and targets, in tokens")
    parser.add_argument("--strategy", default="staged")
    parser.add_argument("--steps", type=int, default=300, help="of the changed script")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, help="default: 1e-3 for tiny, else 2e-5")
    parser.add_argument("--eval-split", default="test")
    parser.add_argument("--json", type=Path, help="keeps every finished run")
    chosen = parser.parse_args()
    chosen.learning_rate = chosen.learning_rate or (1e-3 if chosen.model == "tiny" else 2e-5)
    if chosen.steps < 2:
        parser.error("--steps must be at least 2: the first one only warms up")
    settings = {k: v for k, v in vars(chosen).items() if k not in ("json", "seeds")}
    results = {"settings": settings, "runs": []}
    if chosen.json and chosen.json.exists():
        results = json.loads(chosen.json.read_text("utf-8"))
        if results["settings"] != settings:
            parser.error(f"{chosen.json} holds runs with other settings: {results['settings']}")

    def kept(method: str, mode: str, seed: int) -> dict | None:
        same = lambda r: (r["method"], r["mode"], r["seed"]) == (method, mode, seed)  # noqa: E731
        return next(filter(same, results["runs"]), None)

    def keep(method: str, mode: str, seed: int, found: dict) -> dict:
        results["runs"].append({"method": method, "mode": mode, "seed": seed, **found})
        if chosen.json:
            write_json(chosen.json, results)
        return found

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    bench = Benchmark(chosen)
    if not kept("before training", "", 0):
        metrics = bench.evaluate(bench.start())
        keep("before training", "", 0, {"metrics": metrics, "seconds": 0.0, "steps": 0})
    for seed in parse_seeds(chosen.seeds):
        ours = kept(AFTER, "", seed) or keep(AFTER, "", seed, after(bench, seed))
        run = partial(bench.sentence_transformers, "in-batch", seed, bench.pairs)
        first = kept(BEFORE, STEPS, seed) or keep(BEFORE, STEPS, seed, run(chosen.steps))
        if not kept(BEFORE, SECONDS, seed):
            keep(BEFORE, SECONDS, seed, fitted(run, first, ours["seconds"]))
    print(table(results["runs"]))


if __name__ == "__main__":
    main()
