"""Embed a dataset with several encoders, once, into the folder that `upgrade.py` reads.

    python experiments/upgrade_vectors.py --data squad-open --targets 10000 --output FOLDER \
        --encoders minilm=sentence-transformers/all-MiniLM-L6-v2 \
                   mpnet=sentence-transformers/all-mpnet-base-v2

For each encoder `ENCODER-targets.npy` and `ENCODER-SPLIT.npy` (unit vectors), for each split
`SPLIT-pairs.npy` (relevant rows of query and target) and, where a query is itself a target, as in
ArguAna, `SPLIT-self.npy`. The splits are `train`, at most 800 queries each of `dev` and `test`, and
`dev-log` and `test-log`: the other queries of these two, which are never measured. Files that are
there are kept.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy import ndarray

from experiments.studies.subset import random_subset
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.load import load_encoder

PIECE = 512  # texts between two writes: a kill costs no more
MEASURED = 800  # queries of dev and of test


def judgements(
    data: RetrievalDataset, split: str, first: int, count: int, name: str, output: Path
) -> list[str]:
    """Write the relevant pairs of some queries of a split, and return the queries' texts.

    The queries of a split are in a random order, of which these are `first` and the next ones.
    """
    qrels = data.split(split)
    order = np.random.default_rng(0).permutation(qrels.query_rows)
    rows = np.sort(order[first : first + count])
    pairs = qrels.pairs[np.isin(qrels.pairs[:, 0], rows)].copy()
    pairs[:, 0] = np.searchsorted(rows, pairs[:, 0])
    np.save(output / f"{name}-pairs.npy", pairs)
    place = {id: row for row, id in enumerate(data.target_ids)}
    own = np.array([place.get(id, -1) for id in data.query_ids.take(rows)])
    if (own >= 0).any():
        np.save(output / f"{name}-self.npy", own)
    return data.queries.take(rows)


def embed(name: str, texts: dict[str, Sequence[str]], output: Path, length: int) -> None:
    """Write one encoder's vectors of the targets and of each split's queries."""
    key, _, path = name.partition("=")
    model = load_encoder(path or key, query_max_length=length, target_max_length=length)
    half = torch.autocast("cpu", torch.bfloat16)
    for what, some in texts.items():
        file = output / f"{key}-{what}.npy"
        if file.is_file():
            continue
        start, encode = (
            time.monotonic(),
            model.encode_document if what == "targets" else model.encode_query,
        )
        done: list[ndarray] = []
        for at in range(0, len(some), PIECE):
            part = output / "pieces" / f"{key}-{what}-{at}.npy"
            if not part.is_file():
                with half:
                    found = encode(
                        list(some[at : at + PIECE]), batch_size=32, normalize_embeddings=True
                    )
                np.save(part, np.asarray(found, np.float32))
            done.append(np.load(part))
        np.save(file, np.concatenate(done))
        print(f"{file.name}: {len(some)} in {time.monotonic() - start:.0f} s", flush=True)


def main() -> None:
    """Read the flags and embed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--encoders", nargs="+", required=True, metavar="NAME=MODEL")
    parser.add_argument("--targets", type=int, help="How many, at random; all by default.")
    parser.add_argument("--train", type=int, default=800, help="Training queries.")
    parser.add_argument("--log", type=int, default=5000, help="Queries of each log, at most.")
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    (chosen.output / "pieces").mkdir(parents=True, exist_ok=True)
    data = load_dataset(chosen.data)
    if chosen.targets and chosen.targets < len(data.targets):
        data = random_subset(data, chosen.targets, seed=0)
    parts = {"test": ("test", 0, MEASURED), "dev": ("dev", 0, MEASURED)}
    parts |= {f"{split}-log": (split, MEASURED, chosen.log) for split in ("test", "dev")}
    parts["train"] = ("train", 0, chosen.train)
    texts: dict[str, Sequence[str]] = {}
    for name, (split, first, count) in parts.items():
        if split in data.qrels and len(data.split(split).query_rows) > first:
            texts[name] = judgements(data, split, first, count, name, chosen.output)
    texts["targets"] = data.targets.take(np.arange(len(data.targets)))
    for name in chosen.encoders:
        embed(name, texts, chosen.output, chosen.max_length)


if __name__ == "__main__":
    main()
