"""A smaller corpus out of a larger one: a random subset of the targets, and what still applies."""

from dataclasses import replace

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.errors import InputError


def random_subset(dataset: RetrievalDataset, targets: int, seed: int = 0) -> RetrievalDataset:
    """Keep `targets` random targets, and the judgements that name one of them.

    The order is a permutation that depends on the seed alone, so a smaller subset is the
    beginning of a larger one: vectors of the first serve the second. Queries keep their rows.
    """
    whole = len(dataset.targets)
    if not 1 <= targets <= whole:
        raise InputError(f"cannot take {targets} of the {whole} targets of {dataset.name}")
    order = np.random.default_rng(seed).permutation(whole)[:targets]
    place = np.full(whole, -1, np.int64)
    place[order] = np.arange(targets)
    return replace(
        dataset,
        target_ids=Texts.of(dataset.target_ids.take(order)),
        targets=Texts.of(dataset.targets.take(order)),
        qrels={split: _within(qrels, place) for split, qrels in dataset.qrels.items()},
    )


def _within(qrels: Qrels, place: Int[ndarray, " n"]) -> Qrels:
    moved = place[qrels.target]
    kept = moved >= 0
    return Qrels(query=qrels.query[kept], target=moved[kept], grade=qrels.grade[kept])
