"""What does a whole training step of each strategy cost, and where does its time go?

    python benchmarks/train_step.py
    python benchmarks/train_step.py --data squad-open --model all-MiniLM-L6-v2 --layers 2 \
        --target-max-length 96 --buffer runs/buffer

Steps of all strategies are interleaved in one process; ratios are medians over rounds. A step is
all of it: tokenising queries, search, candidates, losses, backward pass, clipping and both updates.
The first steps are left out: a rolling search reranks everything in its first. So few steps hold no
renewal of its snapshot and leave a memory of residuals nearly empty; both are rare, or cheap, in a
long training of a transformer. Exhaustive is composed of stale steps and refreshes: what embedding
a sample takes, for all targets.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import Positives, RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.embed import embed_targets, preprocess
from unstale.encoders.load import default_towers, load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.miners import strategies
from unstale.training.job import make_loss
from unstale.training.prepare import prepare
from unstale.training.settings import TrainSettings

WARM = 3
SAMPLE = 1024


def main() -> None:
    chosen = parse()
    dataset = load_dataset(chosen.data)
    model = encoder(chosen)
    tokens = target_tokens(model, dataset)
    with tempfile.TemporaryDirectory() as folder:
        buffer = chosen.buffer or Path(folder, "buffer")
        embed_corpus(model, tokens, buffer, fingerprint(model, dataset.targets))
        runs = {name: Run(name, chosen, dataset, buffer) for name in chosen.strategies.split(",")}
    refresh = []
    for step in range(chosen.rounds + WARM):
        for run in runs.values():
            run.step(record=step >= WARM)
        if step >= WARM:
            refresh.append(seconds_of_refresh(model, tokens))
    report(chosen, runs, statistics.median(refresh))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--target-max-length", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--hard-negatives", type=int)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--search", default="rolling")
    parser.add_argument("--strategies", default="in-batch,stale,corrected")
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=900, help="of the run that is composed")
    parser.add_argument("--refreshes", type=int, default=80, help="of exhaustive over it")
    parser.add_argument("--buffer", type=Path, help="keep the embedded corpus here, for next time")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    for name in chosen.strategies.split(","):
        if name not in strategies() or name == "exhaustive":
            parser.error(f"--strategies {name}: not a strategy, or exhaustive, which is composed")
    if chosen.rounds < 1:
        parser.error(f"expected --rounds >= 1, not {chosen.rounds}")
    return chosen


def encoder(chosen: argparse.Namespace):
    return load_encoder(
        chosen.model,
        towers=default_towers(chosen.model),
        layers=chosen.layers,
        target_max_length=chosen.target_max_length,
        device="cpu",
    )


def seconds_of_refresh(model, tokens) -> float:
    """Embed a sample spread over the corpus, and return what all of it would take."""
    rows = np.linspace(0, len(tokens) - 1, min(SAMPLE, len(tokens))).astype(np.int64)
    start = time.perf_counter()
    embed_targets(model, tokens, rows)
    return (time.perf_counter() - start) * len(tokens) / len(rows)


class Run:
    """A training under one strategy, a step at a time."""

    def __init__(
        self, strategy: str, chosen: argparse.Namespace, dataset: RetrievalDataset, buffer: Path
    ) -> None:
        torch.manual_seed(0)
        self.dataset, self.model = dataset, encoder(chosen)
        pairs = dataset.split("train").pairs
        self.labels = torch.from_numpy(pairs)[torch.randperm(len(pairs))]
        settings = TrainSettings(
            strategy=strategy, steps=chosen.steps, batch_size=chosen.batch_size,
            hard_negatives=chosen.hard_negatives, corrector_hidden=chosen.hidden,
            memory=chosen.memory, search=chosen.search, buffer=buffer, eval_split="train",
        )  # fmt: skip
        checked = settings.check(dataset, self.model)
        self.batch = checked.batch_size
        prepared = prepare(self.model, dataset, checked, None, pairs)
        self.loss = make_loss(self.model, checked, prepared, Positives(dataset, ["train"]))
        own = list(self.loss.miner.parameters())
        groups = [{"params": list(self.model.parameters()), "lr": checked.learning_rate}]
        groups += [{"params": own, "lr": 1e-3}] if own else []
        self.optimizer = torch.optim.AdamW(groups, weight_decay=0.0, fused=True)
        self.seconds: list[float] = []
        self.parts: dict[str, list[float]] = {"search": [], "forward": [], "backward, update": []}

    def step(self, *, record: bool) -> None:
        done, counters = self.loss.record.step, self.loss.record.counters
        batches = len(self.labels) // self.batch
        labels = self.labels[done % batches * self.batch :][: self.batch]
        mined, start = counters.mining_seconds, time.perf_counter()
        texts = self.dataset.queries.take(labels[:, 0].tolist())
        losses = self.loss([preprocess(self.model, texts, "query")], labels)
        forward = time.perf_counter()
        sum(losses.values()).backward()
        for group in self.optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.loss.record.step += 1
        end, mined = time.perf_counter(), counters.mining_seconds - mined
        if record:
            self.seconds.append(end - start)
            spent = (mined, forward - start - mined, end - forward)
            for part, seconds in zip(self.parts.values(), spent, strict=True):
                part.append(seconds)


def report(chosen: argparse.Namespace, runs: dict[str, Run], refresh: float) -> None:
    seconds = {name: statistics.median(run.seconds) for name, run in runs.items()}
    ratios = {}
    if "stale" in runs:
        stale = runs["stale"].seconds
        seconds["exhaustive"] = seconds["stale"] + refresh * chosen.refreshes / chosen.steps
        for name, run in runs.items():
            pairs = [s / own for s, own in zip(stale, run.seconds, strict=True)]
            ratios[f"{name}_vs_stale"] = statistics.median(pairs)
            ratios[f"{name}_vs_exhaustive"] = seconds["exhaustive"] / seconds[name]
    result = {
        "settings": {name: str(value) for name, value in vars(chosen).items() if name != "json"},
        "targets": len(next(iter(runs.values())).dataset.targets),
        "batch_size": next(iter(runs.values())).batch,
        "threads": torch.get_num_threads(),
        "seconds": seconds,
        "seconds_of_a_refresh": refresh,
        "steps_per_second_as_a_ratio": ratios,
        "parts": {
            name: {part: statistics.median(s) for part, s in run.parts.items()}
            for name, run in runs.items()
        },
    }
    print(json.dumps(result, indent=2))
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
