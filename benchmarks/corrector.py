"""Which corrector makes most of the embeddings that training computes anyway?

A training is recorded once: at every step the queries, the candidates and their fresh embeddings,
and every 50 steps the whole corpus. Then each variant of the corrector is replayed over the same
record, in seconds, and we see how much of the true top 10 of training and of dev queries it finds.

    python benchmarks/corrector.py --data docstrings --steps 300
    python benchmarks/corrector.py --data PATH/TO/squad-open --steps 300 --json FILE
    python benchmarks/corrector.py --data wordnet-examples --strategy corrected --steps 250 \
        --model all-MiniLM-L6-v2 --layers 2 --max-length 32 --learning-rate 1.5e-4
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.data.load import load_dataset
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.miners import Corrected, Queries
from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.job import train

EVERY = 50
PROBE = 256
SCALE = 20.0
VARIANTS = {  # name: (unit output, hidden, learning rate, loss, memory)
    "ce, output not unit": (False, (768,), 1e-3, "ce", False),
    "mse, output not unit": (False, (768,), 1e-3, "mse", False),
    "ce": (True, (768,), 1e-3, "ce", False),
    "ce, rate x 3": (True, (768,), 3e-3, "ce", False),
    "mse": (True, (768,), 1e-3, "mse", False),
    "mse, linear h": (True, (), 1e-3, "mse", False),
    "mse, 3072 units": (True, (3072,), 1e-3, "mse", False),
    "ce + memory": (True, (768,), 1e-3, "ce", True),
    "mse + memory (ours)": (True, (768,), 1e-3, "mse", True),
    "mse + memory, linear h": (True, (), 1e-3, "mse", True),
    "mse + memory, 3072 units": (True, (3072,), 1e-3, "mse", True),
}


def record(options: argparse.Namespace) -> tuple[list[tuple[Tensor, Tensor, Tensor]], dict]:
    """Train once, watching every step."""
    dataset, steps, length = load_dataset(options.data), options.steps, options.max_length
    model = load_encoder(
        options.model, layers=options.layers, towers="separate", device="cpu",
        query_max_length=length, target_max_length=length,
    )  # fmt: skip
    tokens = target_tokens(model, dataset)
    random = np.random.default_rng(5)
    asked = [np.unique(dataset.split(split).pairs[:, 0]) for split in ("train", "dev")]
    texts = dataset.queries.take(np.concatenate([random.permutation(q)[:PROBE] for q in asked]))
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    snapshots: dict[int, tuple[Tensor, Tensor]] = {}

    def snapshot(step: int) -> None:
        if step % EVERY == 0 and step not in snapshots:
            everything = np.arange(len(tokens))
            snapshots[step] = embed_queries(model, texts), embed_targets(model, tokens, everything)

    plain = FreshNegativesLoss.forward

    def watched(self: FreshNegativesLoss, features, labels):
        snapshot(self.record.step)
        inner = self.miner.loss
        self.miner.loss = lambda q, f, r, w: seen.append((q.vectors, f, r)) or inner(q, f, r, w)
        try:
            return plain(self, features, labels)
        finally:
            del self.miner.loss

    FreshNegativesLoss.forward = watched
    try:
        with tempfile.TemporaryDirectory() as folder:
            chosen = {"batch_size": 64, "refreshes": 40, "eval_split": "dev", "meter_steps": steps}
            chosen |= {"strategy": options.strategy, "learning_rate": options.learning_rate}
            train(dataset, model, Path(folder), steps=steps, **chosen)
    finally:
        FreshNegativesLoss.forward = plain
    snapshot(steps)
    return seen, snapshots


def overlap(queries: Tensor, true: Tensor, cached: Tensor, k: int = 10) -> list[float]:
    """Return the share of the true top k found, for training queries and for dev queries."""
    shares = []
    for some in queries.split(64):
        best, found = (some @ true.T).topk(k).indices, (some @ cached.T).topk(k).indices
        shares.append((best[:, :, None] == found[:, None, :]).any(dim=2).float().mean(dim=1))
    every = torch.cat(shares)
    return [every[:PROBE].mean().item(), every[PROBE:].mean().item()]


def replay(seen: list, snapshots: dict, variant: tuple) -> dict[int, list[float]]:
    """Train one corrector over the record, with the trainer's schedule, clipping and weight."""
    unit, hidden, rate, loss, memory = variant
    torch.manual_seed(0)
    stale = snapshots[0][1]
    steps, (targets, dim) = len(seen), stale.shape
    miner = Corrected(
        TargetBuffer([stale]),
        Corrector(dim, hidden, unit=unit),
        loss=loss,
        memory=ResidualMemory(targets, dim) if memory else None,
    )
    optimizer = torch.optim.AdamW(miner.parameters(), lr=rate, weight_decay=0.0)
    readings = {}
    for step, (queries, fresh, rows) in enumerate(seen):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 10) * (1 - step / steps)
        nobody, which = torch.full((len(queries), 1), -1), torch.arange(len(queries))
        asked = Queries(queries, which, nobody, step, SCALE)
        optimizer.zero_grad()
        (10.0 * miner.loss(asked, fresh, rows, None)).backward()
        torch.nn.utils.clip_grad_norm_(miner.parameters(), 1.0)
        optimizer.step()
        if step + 1 in snapshots:
            with torch.no_grad():
                view = miner.view(torch.arange(targets)).corrected
            readings[step + 1] = overlap(*snapshots[step + 1], view)
    return readings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--strategy", default="exhaustive", help="that is recorded")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    seen, snapshots = record(options)
    print(f"recorded in {time.perf_counter() - began:.0f} s")
    steps = [s for s in snapshots if s]
    results = {"stale": {s: overlap(*snapshots[s], snapshots[0][1]) for s in steps}}
    print(f"{'true top 10 found: training / dev queries':42}" + "".join(f"{s:>15}" for s in steps))
    for name in ["stale", *VARIANTS]:
        if name in VARIANTS:
            results[name] = replay(seen, snapshots, VARIANTS[name])
        values = (f"{a:.3f} / {b:.3f}" for a, b in results[name].values())
        print(f"{name:42}" + "".join(f"{v:>15}" for v in values), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
