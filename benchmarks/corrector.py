"""Which corrector makes most of the embeddings that training computes anyway?

Training with exhaustive refreshes is recorded once: at every step the queries, the candidates and
their fresh embeddings, and every 50 steps the whole corpus. Then each variant of the corrector is
replayed over the same record, in seconds, and we see how much of the true top 10 it would find.

    python benchmarks/corrector.py --data docstrings --steps 300
    python benchmarks/corrector.py --data PATH/TO/squad-open --steps 300 --json FILE
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
VARIANTS = {  # name: (hidden, learning rate, loss, anchor, memory)
    "paper (ce)": ((768,), 1e-3, "ce", 0.0, False),
    "paper, rate x 3": ((768,), 3e-3, "ce", 0.0, False),
    "paper, linear h": ((), 1e-3, "ce", 0.0, False),
    "mse": ((768,), 1e-3, "mse", 0.0, False),
    "ce + anchor": ((768,), 1e-3, "ce", 1.0, False),
    "ce + memory": ((768,), 1e-3, "ce", 0.0, True),
    "mse + memory": ((768,), 1e-3, "mse", 0.0, True),
    "ce + anchor + memory": ((768,), 1e-3, "ce", 1.0, True),
    "ce + anchor x 3 + memory": ((768,), 1e-3, "ce", 3.0, True),
}


def record(data: str, steps: int) -> tuple[list[tuple[Tensor, Tensor, Tensor]], dict]:
    """Train once with 40 full refreshes, watching every step."""
    dataset, model = load_dataset(data), load_encoder("tiny", towers="separate", device="cpu")
    tokens = target_tokens(model, dataset)
    pairs = dataset.split("train").pairs
    chosen = pairs[np.random.default_rng(5).permutation(len(pairs))[:PROBE], 0]
    texts = dataset.queries.take(chosen)
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
            options = {"strategy": "exhaustive", "refreshes": 40, "eval_split": "dev"}
            train(dataset, model, Path(folder), steps=steps, meter_steps=steps, **options)
    finally:
        FreshNegativesLoss.forward = plain
    snapshot(steps)
    return seen, snapshots


def overlap(queries: Tensor, true: Tensor, cached: Tensor, k: int = 10) -> float:
    best, found = (queries @ true.T).topk(k).indices, (queries @ cached.T).topk(k).indices
    return (best[:, :, None] == found[:, None, :]).any(dim=2).float().mean().item()


def replay(seen: list, snapshots: dict, variant: tuple) -> dict[int, float]:
    """Train one corrector over the record, with the trainer's schedule, clipping and weight."""
    hidden, rate, loss, anchor, memory = variant
    torch.manual_seed(0)
    stale = snapshots[0][1]
    steps, (targets, dim) = len(seen), stale.shape
    miner = Corrected(
        TargetBuffer([stale]),
        Corrector(dim, hidden),
        loss=loss,
        anchor=anchor,
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
                view = miner.view(torch.arange(targets), step).corrected
            readings[step + 1] = overlap(*snapshots[step + 1], view)
    return readings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    began = time.perf_counter()
    seen, snapshots = record(arguments.data, arguments.steps)
    print(f"recorded in {time.perf_counter() - began:.0f} s")
    steps = [s for s in snapshots if s]
    stale = {s: overlap(*snapshots[s], snapshots[0][1]) for s in steps}
    results = {"stale": stale}
    print(f"{'share of the true top 10 found, after step':42}" + "".join(f"{s:>7}" for s in steps))
    print(f"{'stale':42}" + "".join(f"{v:7.3f}" for v in stale.values()))
    for name, variant in VARIANTS.items():
        results[name] = replay(seen, snapshots, variant)
        print(f"{name:42}" + "".join(f"{v:7.3f}" for v in results[name].values()), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
