"""What does a step of Algorithm 2 cost, corrected against stale, and where does the time go?

    python benchmarks/rag_step.py --data squad-5000 --retriever MODEL --reader flan-t5-small

Steps of both strategies are interleaved in one run; the ratio is the median over pairs. Shares are
of forward passes by part, and of the backward pass and update together.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from unstale.encoders.load import default_towers, load_encoder
from unstale.rag.algorithm2 import RetrieverReaderLoss
from unstale.rag.check import check_rag
from unstale.rag.load import load_questions
from unstale.rag.load_reader import load_reader
from unstale.rag.settings import RagSettings
from unstale.rag.tiny_reader import tiny_reader
from unstale.training.prepare import prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="facts")
    parser.add_argument("--retriever", default="tiny")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--target-max-length", type=int)
    parser.add_argument("--reader", default="tiny")
    parser.add_argument("--reader-max-length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()

    runs = {name: Run(name, chosen) for name in ("stale", "corrected")}
    for step in range(chosen.steps + 2):
        for run in runs.values():
            run.step(record=step >= 2)  # the first two warm up
    medians = {name: statistics.median(run.seconds) for name, run in runs.items()}
    ratios = [c / s for s, c in zip(*(r.seconds for r in runs.values()), strict=True)]
    result = {
        "settings": {k: str(v) for k, v in vars(chosen).items()},
        "seconds": medians,
        "corrected_vs_stale": statistics.median(ratios),
        "shares": {name: run.shares() for name, run in runs.items()},
    }
    print(json.dumps(result, indent=2))
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


class Run:
    def __init__(self, strategy: str, chosen: argparse.Namespace) -> None:
        torch.manual_seed(0)
        questions = load_questions(chosen.data, progress=False)
        retriever = load_encoder(
            chosen.retriever,
            towers=default_towers(chosen.retriever),
            layers=chosen.layers,
            target_max_length=chosen.target_max_length,
            device="cpu",
        )
        reader = (
            tiny_reader(questions.texts())
            if chosen.reader == "tiny"
            else load_reader(chosen.reader, max_length=chosen.reader_max_length)
        )
        settings = RagSettings(
            strategy=strategy, steps=chosen.steps, batch_size=chosen.batch_size, k=chosen.k,
            corrector_hidden=chosen.hidden, eval_split="train",
        )  # fmt: skip
        checked = check_rag(settings, questions, retriever, reader)
        rows = questions.rows("train")
        trained = np.stack([rows, np.full_like(rows, -1)], axis=1)
        prepared = prepare(retriever, questions.dataset, checked, None, trained)
        self.algorithm = RetrieverReaderLoss(
            retriever, reader, prepared.negatives.miner, prepared.tokens, questions, k=chosen.k
        )
        self.rows = torch.from_numpy(rows.copy())
        self.size = chosen.batch_size
        self.optimizer = torch.optim.AdamW(self.algorithm.parameters(), lr=1e-5)
        self.seconds: list[float] = []

    def step(self, *, record: bool) -> None:
        step = self.algorithm.record.step
        start = time.perf_counter()
        losses = self.algorithm(self.rows[step * self.size : (step + 1) * self.size])
        sum(losses.values()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.algorithm.record.step += 1
        if record:
            self.seconds.append(time.perf_counter() - start)
        else:
            self.algorithm.record.parts.clear()
            self.algorithm.record.counters.mining_seconds = 0.0

    def shares(self) -> dict[str, float]:
        total = sum(self.seconds)
        counted = self.algorithm.record
        parts = {
            "retriever forward": counted.parts["retriever_seconds"] / total,
            "search": counted.counters.mining_seconds / total,
            "reader forward": counted.parts["reader_seconds"] / total,
        }
        return {**parts, "backward and update": 1 - sum(parts.values())}


if __name__ == "__main__":
    main()
