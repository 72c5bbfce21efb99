"""A part of a dataset that a short trial can afford: some pairs, and a corpus around them."""

from dataclasses import replace

import numpy as np

from unstale.data.dataset import Qrels, RetrievalDataset, Texts

_MOST_HELD = 300  # queries to measure on


def sample(dataset: RetrievalDataset, targets: int, seed: int = 0) -> RetrievalDataset:
    """Draw at most `targets` targets: the positives of some training queries, and others.

    Up to half are positives, so that the rest can compete with them. A fifth of the sampled
    queries, at most 300, is the split `dev`; the others are `train`. A corpus that is small enough
    stays whole.
    """
    random = np.random.default_rng(seed)
    qrels = dataset.split("train")
    pairs = qrels.pairs[random.permutation(len(qrels.pairs))]
    rows = np.arange(len(dataset.targets))
    if len(rows) > targets:
        _, first = np.unique(pairs[:, 1], return_index=True)
        positives = max(1, targets // 2)
        if len(first) > positives:  # the pairs before the first target too many
            pairs = pairs[: np.sort(first)[positives]]
        known = np.unique(pairs[:, 1])
        others = np.setdiff1d(rows, known)
        drawn = random.choice(others, max(0, targets - len(known)), replace=False)
        rows = np.sort(np.concatenate([known, drawn]))
    place = np.full(len(dataset.targets), -1)
    place[rows] = np.arange(len(rows))
    chosen = np.unique(pairs[:, 0])
    # Every judgement of the chosen queries on the chosen targets, that none becomes a negative.
    keep = np.isin(qrels.query, chosen) & (place[qrels.target] >= 0)
    judged = Qrels(qrels.query[keep], place[qrels.target[keep]], qrels.grade[keep])
    held = random.permutation(np.unique(judged.query))
    dev = np.isin(judged.query, held[: max(1, min(_MOST_HELD, len(held) // 5))])
    parts = {"train": ~dev, "dev": dev}
    return replace(
        dataset,
        target_ids=Texts.of(dataset.target_ids.take(rows)),
        targets=Texts.of(dataset.targets.take(rows)),
        title_ends=None if dataset.title_ends is None else dataset.title_ends[rows],
        qrels={
            name: Qrels(judged.query[part], judged.target[part], judged.grade[part])
            for name, part in parts.items()
        },
    )
