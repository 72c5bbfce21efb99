"""What does it cost to assemble a batch from the token store, with few and with many targets?

    python benchmarks/features.py                  # N = 20,000 and 21,000,000, some seconds

Offsets and tokens are made up. `lengths of all` is what the store did before: it took the lengths
of all N targets to look up those of the batch.
"""

import argparse
import time
from statistics import median

import numpy as np
import torch

from unstale.data.tokens import TokenStore

TEMPLATE = {"constants": {}, "pad": 0, "segments": False, "kind": "padded"}
TURNS = 20


def main() -> None:
    """Read the flags and print a line for each N."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--targets", type=int, nargs="+", default=[20_000, 21_000_000])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=24, help="of a target, on average")
    chosen = parser.parse_args()
    print("| targets | lengths of all | lengths of the batch |\n|---:|---:|---:|")
    for targets in chosen.targets:
        random = np.random.default_rng(0)
        lengths = random.integers(1, 2 * chosen.tokens, targets, dtype=np.int64)
        starts = np.append(0, np.cumsum(lengths))
        ids = np.broadcast_to(np.int32(7), (int(starts[-1]),))  # takes no memory
        store = TokenStore(ids, starts, TEMPLATE)
        everything, batch = [], []
        for rows in random.integers(0, targets, (TURNS, chosen.batch)):
            began = time.perf_counter()
            np.diff(store.starts)[rows]
            middle = time.perf_counter()
            store.features(rows, torch.device("cpu"))
            end = time.perf_counter()
            everything.append(1000 * (end - began))
            batch.append(1000 * (end - middle))
        print(f"| {targets:,} | {median(everything):.2f} ms | {median(batch):.2f} ms |", flush=True)


if __name__ == "__main__":
    main()
