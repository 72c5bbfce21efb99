"""The paper's last table: does a small model's index, corrected, find a large model's neighbours?

Nearest-neighbour precision at 10, 20 and 100: the overlap with the large model's top k.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.corrector.closed_form import least_squares, procrustes
from unstale.corrector.fit import fit
from unstale.corrector.projected import ProjectedCorrector
from unstale.data.load import load_dataset
from unstale.encoders.load import load_encoder
from unstale.errors import InputError
from unstale.experiments.embedded import Vectors, embedded
from unstale.experiments.subset import random_subset
from unstale.files import write_json

CUTOFFS = (10, 20, 100)
PAPER = {"small": [67.57, 67.73, 57.57], "corrected": [76.87, 73.32, 53.55]}


def run(
    output: Path,
    *,
    data: str,
    small: str = "sentence-transformers/all-MiniLM-L6-v2",
    large: str = "sentence-transformers/all-mpnet-base-v2",
    split: str = "test",
    targets: int | None = None,
    queries: int | None = None,
    samples: int = 32,
    max_length: int = 128,
    hidden: int = 1536,
    scale: float = 20.0,
    epochs: int = 60,
    seed: int = 0,
) -> dict[str, Any]:
    """Correct a small model's vectors towards a large one's; write results.json.

    Args:
        output: The folder to write to; embeddings are kept there, and resumed.
        data: A folder in BEIR layout.
        small: The encoder whose vectors there are.
        large: The encoder to approximate.
        split: Whose queries; half train the corrector, half are held out.
        targets: Use a random subset of so many.
        queries: Use only the first so many of the split.
        samples: Targets for each training query that are embedded with the large model, half
            of them its nearest by the small model, half uniform.
        max_length: Tokens after which every text is cut, for both encoders.
        hidden: Width of the corrector.
        scale: The paper's beta.
        epochs: The most epochs.
        seed: Of subset, samples and corrector.
    """
    began = time.perf_counter()
    dataset = load_dataset(data)
    dataset = random_subset(dataset, targets or len(dataset.targets), seed=0)
    rows = dataset.split(split).query_rows if targets is None else _asked(data, split)
    rows = rows[: queries or len(rows)]
    if len(rows) < 4 or len(dataset.targets) <= max(CUTOFFS) + 1:
        raise InputError(f"{len(rows)} queries and {len(dataset.targets)} targets are too few")
    vectors: dict[str, Vectors] = {}
    for side, name in (("small", small), ("large", large)):
        model = load_encoder(name, query_max_length=max_length, target_max_length=max_length)
        vectors[side] = embedded(model, dataset, rows, output / "vectors" / side)
    place = {key: i for i, key in enumerate(dataset.target_ids)}
    own = torch.tensor([place.get(key, -1) for key in dataset.query_ids.take(rows)])
    embedding = time.perf_counter() - began

    near, far = vectors["small"], vectors["large"]
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(rows)))
    train, held = order[: len(order) // 2].sort().values, order[len(order) // 2 :].sort().values
    candidates = _candidates(near, own, train, samples, seed)
    unique = candidates.unique()
    maps = {
        "least squares": least_squares(near.targets[unique], far.targets[unique]),
        "procrustes": procrustes(near.targets[unique], far.targets[unique]),
    }
    corrected = {name: _unit(affine(near.targets)) for name, affine in maps.items()}
    fits: dict[str, Any] = {}
    for name, asked in (("corrector, mse", None), ("corrector, ce + mse", far.queries[train])):
        torch.manual_seed(seed)
        early = torch.rand(len(unique)) < 0.1
        taught = unique[~early]  # the start must not know what decides when to stop
        begin = least_squares(near.targets[taught], far.targets[taught])
        h = ProjectedCorrector(begin, (hidden,), unit=True)
        done = fit(
            h, near.targets[unique], far.targets[unique], queries=asked, held_out=early,
            scale=scale, anchor=10.0, learning_rate=3e-4, batch_size=256, epochs=epochs,
            patience=8, seed=seed,
        )  # fmt: skip
        fits[name] = {"epochs": done.epochs, "best_epoch": done.best_epoch, "seconds": done.seconds}
        with torch.no_grad():
            corrected[name] = h(near.targets)
    true = far.queries @ far.targets.T
    seen = {"small model alone": near.queries @ near.targets.T}
    seen |= {name: far.queries @ v.T for name, v in corrected.items()}
    table = {
        name: {
            "held_out": precision(scores[held], true[held], own[held]),
            "training": precision(scores[train], true[train], own[train]),
        }
        for name, scores in seen.items()
    }
    results = {
        "experiment": "small-to-large",
        "settings": {"data": dataset.name, "small": Path(small).name, "large": Path(large).name}
        | {"targets": len(dataset.targets), "queries": len(rows), "samples": samples}
        | {"max_length": max_length, "hidden": hidden, "scale": scale, "seed": seed},
        "unique_targets_embedded": len(unique),
        "precision": table,
        "paper": PAPER,
        "fits": fits,
        "summary": {f"{n}, held out": str(t["held_out"]) for n, t in table.items()}
        | {"unique targets embedded": f"{len(unique)} of {len(dataset.targets)}"},
        "embedding_seconds": embedding,
        "seconds": time.perf_counter() - began,
    }
    write_json(output / "results.json", results)
    return results


def _asked(data: str, split: str) -> Int[np.ndarray, " q"]:
    """Ask all queries of the whole split, also those whose answers a subset leaves out."""
    return load_dataset(data).split(split).query_rows


def _unit(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    return torch.nn.functional.normalize(vectors, dim=1)


def _candidates(
    near: Vectors, own: Int[Tensor, " q"], train: Int[Tensor, " t"], samples: int, seed: int
) -> Int[Tensor, "t s"]:
    """Choose each training query's targets: its nearest by the small model, and uniform ones."""
    generator = torch.Generator().manual_seed(seed)
    scores = _without(near.queries[train] @ near.targets.T, own[train])
    top = scores.topk(samples // 2, dim=1).indices
    shape = (len(train), samples - samples // 2)
    return torch.cat([top, torch.randint(len(near.targets), shape, generator=generator)], dim=1)


def precision(
    scores: Float[Tensor, "q n"], true: Float[Tensor, "q n"], own: Int[Tensor, " q"]
) -> dict[str, float]:
    """Return the overlap of the top k with the true top k, in percent, for every cutoff.

    The target whose id is the query's own is left out of both, as BEIR does.
    """
    scores, true = _without(scores, own), _without(true, own)
    found = {}
    for k in CUTOFFS:
        ours, theirs = scores.topk(k, dim=1).indices, true.topk(k, dim=1).indices
        shared = (ours[:, :, None] == theirs[:, None, :]).any(dim=2).float().mean()
        found[f"p@{k}"] = round(100 * shared.item(), 2)
    return found


def _without(scores: Float[Tensor, "q n"], own: Int[Tensor, " q"]) -> Float[Tensor, "q n"]:
    scores = scores.clone()
    there = (own >= 0).nonzero()[:, 0]
    scores[there, own[there]] = -torch.inf
    return scores
