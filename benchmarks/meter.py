"""Does the freshness meter tell the truth? Its estimate against a full re-embedding.

At several points of a run the whole corpus is re-embedded, and the true overlap of the probe's
queries is compared with what the meter reads from the few targets that it encodes. Beside it
stands the time of a reading, in training steps.

    python benchmarks/meter.py
    python benchmarks/meter.py --data PATH --model all-MiniLM-L6-v2 --layers 2 \
        --target-max-length 32 --steps 250 --points 5
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.load import load_dataset
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.encoders.load import load_encoder
from unstale.miners.miner import Miner
from unstale.search.best import agreement
from unstale.training.job import train
from unstale.training.meter import Meter, Reading


def watched(rows: list[dict[str, Any]]) -> Any:
    """Return a `Meter.read` that reads as a run does, and then compares with everything."""
    plain = Meter.read

    def read(meter: Meter, model: SentenceTransformer, miner: Miner, step: int) -> Reading | None:
        began = time.perf_counter()
        reading = plain(meter, model, miner, step)
        seconds = time.perf_counter() - began
        if reading is not None and step:
            queries = embed_queries(model, meter.texts)
            true = best(queries, embed_targets(model, meter._tokens, np.arange(meter.size)))
            with torch.no_grad():
                view = miner.view(torch.arange(meter.size))
            found = reading.freshness
            row = {"step": step, "encoded": reading.encoded, "seconds": seconds}
            row["stale"] = found.overlap_stale, agreement(true, best(queries, view.stale))
            if view.corrected is not None:
                held = agreement(true, best(queries, view.corrected))
                row["corrected"] = found.overlap_corrected, held
            rows.append(row)
        return reading

    return read


def best(queries: Tensor, targets: Tensor) -> Tensor:
    return (queries @ targets.cpu().T).topk(10).indices


def check(chosen: argparse.Namespace, strategy: str) -> tuple[list[dict[str, Any]], float]:
    """Train once; return what was read, and the seconds of a step."""
    limits = {"layers": chosen.layers, "target_max_length": chosen.target_max_length}
    model = load_encoder(
        chosen.model,
        towers="separate",
        device="cpu",
        **{k: v for k, v in limits.items() if v is not None},
    )
    rows: list[dict[str, Any]] = []
    plain, Meter.read = Meter.read, watched(rows)
    try:
        with tempfile.TemporaryDirectory() as folder:
            settings = {"strategy": strategy, "steps": chosen.steps, "eval_split": "dev"}
            settings |= {"meter_steps": max(1, chosen.steps // chosen.points), "seed": chosen.seed}
            settings["batch_size"] = chosen.batch_size
            if chosen.bf16:
                settings["trainer"] = {"bf16": True}
            if chosen.learning_rate is not None:
                settings["learning_rate"] = chosen.learning_rate
            run = train(load_dataset(chosen.data), model, Path(folder), **settings)
    finally:
        Meter.read = plain
    return rows, (run.seconds["training"] - run.seconds["metering"]) / run.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--target-max-length", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--bf16", action="store_true", help="Encode in mixed precision.")
    parser.add_argument("--strategies", default="stale,corrected")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--points", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    print("| run | step | view | estimate | truth | error | encoded |")
    print("|---|---:|---|---:|---:|---:|---:|")
    errors, results = [], {}
    for strategy in chosen.strategies.split(","):
        rows, step = check(chosen, strategy)
        results[strategy] = rows
        for row in rows:
            for view in ("stale", "corrected"):
                if view in row:
                    told, true = row[view]
                    errors.append(told - true)
                    cells = f"{told:.3f} | {true:.3f} | {told - true:+.3f} | {row['encoded']:,} |"
                    print(f"| {strategy} | {row['step']} | {view} | {cells}", flush=True)
        seconds = statistics.median(row["seconds"] for row in rows)
        print(f"\n{strategy}: a reading takes {seconds:.2f} s, {seconds / step:.1f} steps\n")
    worst = max(map(abs, errors))
    print(f"bias {statistics.fmean(errors):+.3f}, largest error {worst:.3f}, {len(errors)} points")
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
