"""The paper's last table: does a small model's index, corrected, find a large model's neighbours?

Nearest-neighbour precision at 10, 20 and 100: the overlap with the large model's top k.
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.studies.declared import SmallToLargeSettings
from experiments.studies.embedded import Vectors, embed_with
from experiments.studies.study import Study
from experiments.studies.subset import random_subset
from unstale.corrector.closed_form import least_squares
from unstale.corrector.fit import fit
from unstale.corrector.projected import ProjectedCorrector
from unstale.data.load import load_dataset
from unstale.errors import InputError

CUTOFFS = (10, 20, 100)
PAPER = {"small": [67.57, 67.73, 57.57], "corrected": [76.87, 73.32, 53.55]}


def measure(output: Path, settings: SmallToLargeSettings) -> dict[str, Any]:
    """Correct a small model's vectors towards a large one's; embeddings are kept in the folder."""
    began = time.perf_counter()
    whole = load_dataset(settings.data)
    dataset = random_subset(whole, settings.targets or len(whole.targets), seed=0)
    # All queries of the whole split, also those whose answers a subset leaves out.
    rows = whole.split(settings.split).query_rows
    rows = rows[: settings.queries or len(rows)]
    if len(rows) < 4 or len(dataset.targets) <= max(CUTOFFS) + 1:
        raise InputError(f"{len(rows)} queries and {len(dataset.targets)} targets are too few")
    names = {"small": settings.small, "large": settings.large}
    vectors = embed_with(names, dataset, rows, output / "vectors", settings.max_length)
    place = {key: i for i, key in enumerate(dataset.target_ids)}
    own = torch.tensor([place.get(key, -1) for key in dataset.query_ids.take(rows)])
    embedding = time.perf_counter() - began

    near, far = vectors["small"], vectors["large"]
    order = torch.from_numpy(np.random.default_rng(settings.seed).permutation(len(rows)))
    train, held = order[: len(order) // 2].sort().values, order[len(order) // 2 :].sort().values
    unique = _candidates(near, own, train, settings).unique()
    linear = least_squares(near.targets[unique], far.targets[unique])
    corrected = {"least squares": _unit(linear(near.targets))}
    fits: dict[str, Any] = {}
    for name, queries in (
        ("corrector, mse", None),
        ("corrector, ce + mse", far.queries[train]),
    ):
        corrected[name], fits[name] = _fit(near, far, unique, queries, settings)
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
    used: dict[str, Any] = {name: Path(path).name for name, path in names.items()}
    used |= {"data": dataset.name, "targets": len(dataset.targets), "queries": len(rows)}
    return {
        "settings": asdict(settings) | used,
        "unique_targets_embedded": len(unique),
        "precision": table,
        "paper": PAPER,
        "fits": fits,
        "summary": {f"{n}, held out": str(t["held_out"]) for n, t in table.items()}
        | {"unique targets embedded": f"{len(unique)} of {len(dataset.targets)}"},
        "embedding_seconds": embedding,
    }


def _fit(
    near: Vectors,
    far: Vectors,
    rows: Int[Tensor, " u"],
    queries: Float[Tensor, "t e"] | None,
    settings: SmallToLargeSettings,
) -> tuple[Float[Tensor, "n e"], dict[str, Any]]:
    """Correct all targets by a network that is fitted to the embedded rows."""
    torch.manual_seed(settings.seed)
    early = torch.rand(len(rows)) < 0.1
    taught = rows[~early]  # the start must not know what decides when to stop
    begin = least_squares(near.targets[taught], far.targets[taught])
    h = ProjectedCorrector(begin, (settings.hidden,), unit=True)
    done = fit(
        h, near.targets[rows], far.targets[rows], queries=queries, held_out=early,
        scale=settings.scale, anchor=10.0, learning_rate=3e-4, batch_size=256,
        epochs=settings.epochs, patience=8, seed=settings.seed,
    )  # fmt: skip
    with torch.no_grad():
        corrected = h(near.targets)
    took = {"epochs": done.epochs, "best_epoch": done.best_epoch, "seconds": done.seconds}
    return corrected, took


def _unit(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    return torch.nn.functional.normalize(vectors, dim=1)


def _candidates(
    near: Vectors, own: Int[Tensor, " q"], train: Int[Tensor, " t"], settings: SmallToLargeSettings
) -> Int[Tensor, "t s"]:
    """Choose each training query's targets: its nearest by the small model, and uniform ones."""
    generator = torch.Generator().manual_seed(settings.seed)
    nearest = settings.samples // 2
    scores = _without(near.queries[train] @ near.targets.T, own[train])
    top = scores.topk(nearest, dim=1).indices
    shape = (len(train), settings.samples - nearest)
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


STUDY = Study("small-to-large", SmallToLargeSettings, measure)
