"""A part of a dataset that a short trial can afford: some pairs, and a corpus around them."""

import numpy as np

from unstale.data.dataset import RetrievalDataset

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
    # Every judgement of the chosen queries on the chosen targets, that none becomes a negative.
    chosen = qrels.take(np.isin(qrels.query, pairs[:, 0]) & np.isin(qrels.target, rows))
    held = random.permutation(np.unique(chosen.query))
    dev = np.isin(chosen.query, held[: max(1, min(_MOST_HELD, len(held) // 5))])
    return dataset.with_targets(rows, {"train": chosen.take(~dev), "dev": chosen.take(dev)})
