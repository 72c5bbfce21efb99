"""Is it better than what people use? Against sentence-transformers alone, at equal wall-clock.

Same encoder, data, seed, optimizer (AdamW), learning rate, warmup (10 steps, then linear to zero),
dropout (none) and evaluation. Trained by sentence-transformers, each with the faster of the batch
samplers that it advises (no duplicates in a batch):

    in-batch        MultipleNegativesRankingLoss
    mined           the same, with the top negatives that `mine_hard_negatives` found at the start
    mined, margin   those at least 5% below the positive, its documented recipe; it drops pairs
    large batch     CachedMultipleNegativesRankingLoss; static embeddings, which it refuses and
                    which need no cache, have the plain loss with the same large batch

against `unstale`: once for the same number of steps, and once for as many as fit into the seconds
that unstale took, at the pace of the first. Every run ends its schedule; one that took over 5% more
or less than its time is fitted and trained again. Seconds are all that a user waits for but loading
the model and the evaluation: tokenising, embedding, mining, training, metering, saving. Methods are
interleaved over seeds. With `--json FILE` every finished run is kept, and the same command goes on
after an interruption.

    python benchmarks/vs_sentence_transformers.py --data docstrings --seeds 0,1,2 --json FILE
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    util,
)
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import TrainerCallback, set_seed

from unstale.data.load import load_dataset
from unstale.declare import parse_seeds
from unstale.encoders.embed import is_cosine, prompt_of
from unstale.encoders.load import default_towers, load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.evaluation.evaluator import Evaluator
from unstale.files import write_json
from unstale.report.markdown import markdown_table
from unstale.report.numbers import percent
from unstale.report.table import TERMINAL
from unstale.training.job import train

# What to tell the miner; None: nothing is mined.
MARGINS = {"in-batch": None, "mined": 0.0, "mined, margin": 0.05, "large batch": None}
STEPS, SECONDS = "equal steps", "equal seconds"
OURS = "unstale, "  # before the name of a strategy
SLACK, FITS = 0.05, 3  # of the time; how often to fit the steps to it


class Clock(TrainerCallback):
    """Time the steps."""

    def __init__(self):
        self.ends: list[float] = []

    def on_step_end(self, args, state, control, **_):
        self.ends.append(time.perf_counter())

    @property
    def pace(self) -> float:
        """Seconds a step; the first one warms up."""
        return (self.ends[-1] - self.ends[0]) / max(1, len(self.ends) - 1)


class Benchmark:
    """The data, the start, and one way to train and measure for each side."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.dataset = load_dataset(chosen.data)
        self.evaluate = Evaluator(
            self.dataset, chosen.eval_split, target_tokens(self.start(), self.dataset)
        )
        pairs = self.dataset.split("train").pairs
        self.pairs = Dataset.from_dict(
            {
                "anchor": self.dataset.queries.take(pairs[:, 0]),
                "positive": self.dataset.targets.take(pairs[:, 1]),
            }
        )

    def start(self) -> SentenceTransformer:
        name, shape = self.chosen.model, {}
        if self.chosen.max_length:
            shape = dict.fromkeys(("query_max_length", "target_max_length"), self.chosen.max_length)
        return load_encoder(name, towers=default_towers(name), layers=self.chosen.layers, **shape)

    def unstale(self, strategy: str, seed: int, steps: int) -> dict:
        model, chosen = self.start(), self.chosen
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, UNSTALE_CACHE=folder),  # tokenising counts
        ):
            entry = train(
                self.dataset, model, Path(folder, "run"), strategy=strategy,
                steps=steps, batch_size=chosen.batch_size, seed=seed,
                learning_rate=chosen.learning_rate, eval_split=chosen.eval_split,
                mine_from=chosen.mine_from,
            )  # fmt: skip
        spent = entry.seconds
        return {
            "metrics": dict(entry.metrics),
            "seconds": spent["total"] - spent["evaluation"],
            "steps": steps,
            "seconds_a_step": (spent["training"] - spent["starting"]) / max(1, steps - 1),
        }

    def mine(self, margin: float | None) -> tuple[Dataset, float]:
        """Add mined negatives to the pairs; the start mines, as nothing else is trained yet."""
        if margin is None:
            return self.pairs, 0.0
        model, began = self.start(), time.perf_counter()
        mined = util.mine_hard_negatives(
            self.pairs, model, corpus=list(self.dataset.targets),
            num_negatives=self.chosen.hard_negatives, relative_margin=margin or None,
            output_format="n-tuple", batch_size=256,
        )  # fmt: skip
        return mined, time.perf_counter() - began

    def sentence_transformers(self, name: str, seed: int, rows: Dataset, steps: int) -> dict:
        """Train with a stock trainer; return what came out, and the pace of its steps."""
        set_seed(seed)
        model, began = self.start(), time.perf_counter()
        large = name == "large batch"
        batch = self.chosen.large_batch if large else self.chosen.batch_size
        if len(rows) < batch:
            raise InputError(f"{name}: a batch of {batch} needs as many pairs, not {len(rows)}")
        scores = {"scale": 20.0} if is_cosine(model) else {"scale": 1.0}
        scores["similarity_fct"] = util.cos_sim if is_cosine(model) else util.dot_score
        if large and not any(isinstance(m, StaticEmbedding) for m in model.modules()):
            scores["mini_batch_size"] = self.chosen.batch_size
            loss = CachedMultipleNegativesRankingLoss(model, **scores)
        else:
            loss = MultipleNegativesRankingLoss(model, **scores)
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            arguments = self.arguments(folder, model, rows.column_names, seed, steps, batch)
            trainer = SentenceTransformerTrainer(
                model, arguments, train_dataset=rows, loss=loss, callbacks=[clock]
            )
            trainer.train()
            if not clock.ends:
                rule = "the sampler found too few batches without a text twice"
                raise InputError(f"{name}: {rule}; try a smaller batch than {batch}")
            model.save_pretrained(str(Path(folder, "model")))
        seconds = time.perf_counter() - began
        return {
            "metrics": self.evaluate(model),
            "seconds": seconds,
            "steps": len(clock.ends),
            "seconds_a_step": clock.pace,
            "pairs": len(rows),
        }

    def arguments(
        self, folder: str, model: SentenceTransformer, columns: list[str], seed: int, steps: int,
        batch: int,
    ) -> SentenceTransformerTrainingArguments:  # fmt: skip
        """Say what every script tells its trainer."""
        tasks = {c: "query" if c == "anchor" else "document" for c in columns}
        return SentenceTransformerTrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch,
            learning_rate=self.chosen.learning_rate, warmup_steps=10 if steps > 10 else 0,
            seed=seed, batch_sampler="no_duplicates_hashed", router_mapping=tasks,
            prompts={c: p for c, task in tasks.items() if (p := prompt_of(model, task))},
            save_strategy="no", report_to="none", logging_steps=max(1, steps // 5),
            dataloader_drop_last=True, use_cpu=model.device.type == "cpu",
            dataloader_pin_memory=model.device.type != "cpu",
        )  # fmt: skip

    def alternative(self, name: str, seed: int, keep: Callable[..., None], budget: float) -> None:
        """Train one alternative for as many steps as unstale, then for as many seconds."""
        rows, mining = self.mine(MARGINS.get(name))

        def run(steps: int) -> dict:
            if name.startswith(OURS):
                return self.unstale(name.removeprefix(OURS), seed, steps)
            found = self.sentence_transformers(name, seed, rows, steps)
            return found | {"seconds": found["seconds"] + mining}

        if not self.chosen.seconds_only:
            found = run(self.chosen.steps)
            keep(name, STEPS, seed, found)
        else:  # only to learn the pace
            found = run(max(2, self.chosen.steps // 10))
        if mining >= budget:  # alone
            found = {"metrics": self.evaluate(self.start()), "seconds": mining, "steps": 0}
        else:
            found = fitted(run, found, budget)
        keep(name, SECONDS, seed, found)


def fitted(run: Callable[[int], dict], found: dict, budget: float) -> dict:
    """Train for as many steps as fit into some seconds, by the pace of the last training."""
    for _ in range(FITS):
        around = found["seconds"] - found["steps"] * found["seconds_a_step"]
        found = run(max(2, round((budget - around) / found["seconds_a_step"])))
        if abs(found["seconds"] / budget - 1) <= SLACK:
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--max-length", type=int, help="of queries and targets, in tokens")
    parser.add_argument("--strategy", default="staged", help="of unstale: sets the time")
    parser.add_argument("--others", default="corrected", help="strategies of unstale, by commas")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--methods", default="; ".join(MARGINS), help="parted by semicolons")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--large-batch", type=int, default=1024, help="of that method")
    parser.add_argument(
        "--hard-negatives", type=int, default=4, help="of mine_hard_negatives, for each query"
    )
    parser.add_argument("--learning-rate", type=float, help="default: 1e-3 for tiny, else 2e-5")
    parser.add_argument("--eval-split", default="test")
    parser.add_argument("--mine-from", type=float, help="of the strategy staged")
    parser.add_argument(
        "--seconds-only", action="store_true",
        help="do not train the alternatives for as many steps as unstale, too",
    )  # fmt: skip
    parser.add_argument(
        "--cpu-seconds", action="store_true",
        help="count the process's CPU time: for one thread on a machine with other work",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="keeps every finished run")
    chosen = parser.parse_args()
    chosen.learning_rate = chosen.learning_rate or (1e-3 if chosen.model == "tiny" else 2e-5)
    if chosen.cpu_seconds:
        time.perf_counter = time.process_time
    methods = [name for method in chosen.methods.split(";") if (name := method.strip())]
    others = [OURS + name.strip() for name in chosen.others.split(",") if name.strip()]
    if chosen.steps < 2:
        parser.error("--steps must be at least 2: the first one only warms up")
    if unknown := set(methods) - set(MARGINS):
        parser.error(f"no method {', '.join(unknown)}; there are {'; '.join(MARGINS)}")
    free = ("json", "seeds", "methods", "others", "seconds_only")
    settings = {k: v for k, v in vars(chosen).items() if k not in free}
    results = {"settings": settings, "runs": []}
    if chosen.json and chosen.json.exists():
        results = json.loads(chosen.json.read_text("utf-8"))
        if results["settings"] != settings:
            parser.error(f"{chosen.json} holds runs with other settings: {results['settings']}")

    def keep(method: str, mode: str, seed: int, found: dict) -> None:
        results["runs"].append({"method": method, "mode": mode, "seed": seed, **found})
        if chosen.json:
            write_json(chosen.json, results)

    def kept(method: str, mode: str, seed: int) -> dict | None:
        same = lambda r: (r["method"], r["mode"], r["seed"]) == (method, mode, seed)  # noqa: E731
        return next(filter(same, results["runs"]), None)

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    bench = Benchmark(chosen)
    if not kept("before", "", 0):
        metrics = bench.evaluate(bench.start())
        keep("before", "", 0, {"metrics": metrics, "seconds": 0.0, "steps": 0})
    ours = OURS + chosen.strategy
    for seed in parse_seeds(chosen.seeds):
        if not kept(ours, "", seed):
            keep(ours, "", seed, bench.unstale(chosen.strategy, seed, chosen.steps))
        for method in [*methods, *others]:
            if not kept(method, SECONDS, seed):
                results["runs"] = [  # an interrupted pair begins again
                    r for r in results["runs"] if (r["method"], r["seed"]) != (method, seed)
                ]
                bench.alternative(method, seed, keep, kept(ours, "", seed)["seconds"])
    print(table(results["runs"]))


def table(runs: list[dict]) -> str:
    """Average over seeds, with the spread."""
    rows = []
    for method, mode in dict.fromkeys((r["method"], r["mode"]) for r in runs):
        own = [r for r in runs if (r["method"], r["mode"]) == (method, mode)]
        cells = [percent([r["metrics"][m] for r in own]) for m in TERMINAL]
        seconds, steps = (f"{fmean(r[k] for r in own):.0f}" for k in ("seconds", "steps"))
        rows.append([f"{method}, {mode}" if mode else method, *cells, seconds, steps])
    return markdown_table(["", *TERMINAL.values(), "seconds", "steps"], rows)


if __name__ == "__main__":
    main()
