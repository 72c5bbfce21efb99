"""Is it better than what people use? Against sentence-transformers alone, after the same seconds.

Same encoder, data, seed, optimizer (AdamW), learning rate, warmup (10 steps, then linear to zero),
precision and evaluation. Trained by sentence-transformers, each with the faster of the batch
samplers that it advises (no duplicates in a batch):

    in-batch        MultipleNegativesRankingLoss: the script of examples/before.py
    mined           the same, with negatives that `mine_hard_negatives` found at the start, at
                    least 5% below the positive, as it documents; this drops pairs
    large batch     CachedMultipleNegativesRankingLoss; static embeddings, which it refuses and
                    which need no cache, have the plain loss with the same large batch
    GIST            GISTEmbedLoss, guided by `--guide`; transformers only
    three lines     the script of examples/after.py: FreshNegatives in the stock trainer

`unstale` trains for `--steps` and sets the time. Every other method trains for as many steps as fit
into it: it is timed in a short training, trained, and fitted again if that took over 10% more or
less. Further seeds train for the steps of the first. Seconds are all that a user waits for but
loading the model and the evaluation: tokenising, embedding, mining, training, metering, saving.
Methods are interleaved over seeds. With `--json FILE` every finished run is kept, and the same
command resumes after an interruption.

    python benchmarks/vs_sentence_transformers.py --data docstrings --seeds 0,1,2 --json FILE
"""

import argparse
import json
import os
import time
from pathlib import Path
from statistics import fmean

import numpy as np
from recipes import METHODS, OURS, Benchmark

from unstale.declare import parse_seeds
from unstale.errors import InputError
from unstale.evaluation.significance import paired_p_value, seed_difference
from unstale.files import write_json
from unstale.report.markdown import markdown_table
from unstale.report.numbers import percent
from unstale.report.table import TERMINAL


class Kept:
    """The finished runs, in a file if there is one."""

    def __init__(self, file: Path | None, settings: dict) -> None:
        self.file, self.results = file, {"settings": settings, "runs": []}
        if file and file.exists():
            self.results = json.loads(file.read_text("utf-8"))
            if self.results["settings"] != settings:
                raise InputError(f"{file} holds runs with other settings: {self.results}"[:2000])

    @property
    def runs(self) -> list[dict]:
        return self.results["runs"]

    def find(self, method: str, seed: int | None = None) -> dict | None:
        """Return the run of a method, of any seed if none is named."""
        own = (r for r in self.runs if r["method"] == method and seed in (None, r["seed"]))
        return next(own, None)

    def add(self, method: str, seed: int, found: dict) -> None:
        queries = {m: np.round(found["queries"][m], 4).tolist() for m in TERMINAL}
        self.runs.append({"method": method, "seed": seed, **found, "queries": queries})
        if self.file:
            write_json(self.file, self.results)


def main() -> None:
    chosen, methods = parse()
    free = ("json", "seeds", "methods", "others")
    kept = Kept(chosen.json, {k: v for k, v in vars(chosen).items() if k not in free})
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    bench, ours = Benchmark(chosen), OURS + chosen.strategy
    if not kept.find("before"):
        kept.add("before", 0, bench.before())
    for seed in parse_seeds(chosen.seeds):
        if not kept.find(ours, seed):
            kept.add(ours, seed, bench.run(ours, seed, chosen.steps))
        for method in methods:
            if kept.find(method, seed):
                continue
            if known := kept.find(method):  # of another seed
                found = bench.run(method, seed, known["steps"])
            else:
                found = bench.fitted(method, seed, kept.find(ours, seed)["seconds"])
            kept.add(method, seed, found)
    print(table(kept.runs, ours))


def parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--max-length", type=int, help="of queries and targets, in tokens")
    parser.add_argument("--strategy", default="staged", help="of unstale: sets the time")
    parser.add_argument("--others", default="in-batch", help="strategies of unstale, by commas")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--methods", help="parted by semicolons; by default all that can be")
    parser.add_argument("--guide", default="all-MiniLM-L6-v2", help="the model that guides GIST")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--large-batch", type=int, default=1024, help="of that method")
    parser.add_argument(
        "--hard-negatives", type=int, default=4, help="of mine_hard_negatives, for each query"
    )
    parser.add_argument("--learning-rate", type=float, help="default: 1e-3 for tiny, else 2e-5")
    parser.add_argument("--eval-split", default="test")
    parser.add_argument("--mine-from", type=float, help="of the strategy staged")
    parser.add_argument("--bf16", action="store_true", help="train in bfloat16, every method")
    parser.add_argument(
        "--cpu-seconds", action="store_true",
        help="count the process's CPU time: for one thread on a machine with other work",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="keeps every finished run")
    chosen = parser.parse_args()
    chosen.learning_rate = chosen.learning_rate or (1e-3 if chosen.model == "tiny" else 2e-5)
    if chosen.cpu_seconds:
        time.perf_counter = time.process_time
    able = [name for name in METHODS if name != "GIST" or chosen.model != "tiny"]
    asked = able if chosen.methods is None else chosen.methods.split(";")
    methods = [name for method in asked if (name := method.strip())]
    if chosen.steps < 2:
        parser.error("--steps must be at least 2: the first one only warms up")
    if unknown := set(methods) - set(able):
        parser.error(f"no method {', '.join(unknown)} here; there are {'; '.join(able)}")
    others = [OURS + name.strip() for name in chosen.others.split(",") if name.strip()]
    return chosen, [*others, *methods]


def table(runs: list[dict], ours: str) -> str:
    """Average over seeds, with the spread, and test ours against each other method."""
    rows, decides = [], "ndcg@10"

    def values(method: str) -> dict[int, np.ndarray]:
        return {r["seed"]: np.array(r["queries"][decides]) for r in runs if r["method"] == method}

    for method in dict.fromkeys(r["method"] for r in runs):
        own = [r for r in runs if r["method"] == method]
        cells = [percent([r["metrics"][m] for r in own]) for m in TERMINAL]
        seconds, steps = (f"{fmean(r[k] for r in own):.0f}" for k in ("seconds", "steps"))
        ahead = ["", "", ""]
        if method not in (ours, "before"):
            p, over = paired_p_value(values(ours), values(method)), None
            over = seed_difference(values(ours), values(method))
            gain = np.mean([*values(ours).values()]) - np.mean([*values(method).values()])
            ahead = [f"{100 * gain:+.1f}", f"{p:.1g}" if p is not None else ""]
            ahead.append(f"{over.p:.1g}" if over else "")
        rows.append([method, *cells, seconds, steps, *ahead])
    tests = ["unstale's nDCG@10 ahead by", "p over queries", "p over seeds"]
    return markdown_table(["", *TERMINAL.values(), "seconds", "steps", *tests], rows)


if __name__ == "__main__":
    main()
