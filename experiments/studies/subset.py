"""A smaller corpus out of a larger one: a subset of the targets, and what still applies."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from unstale.data.dataset import Qrels, RetrievalDataset
from unstale.errors import InputError

_FILLED = 0.8  # of the smallest subset, by targets that are relevant to a query


def random_subset(dataset: RetrievalDataset, targets: int, seed: int = 0) -> RetrievalDataset:
    """Keep `targets` random targets, and the judgements that name one of them.

    The order is a permutation that depends on the seed alone, so a smaller subset is the
    beginning of a larger one: vectors of the first serve the second. Queries keep their rows.
    """
    whole = len(dataset.targets)
    if not 1 <= targets <= whole:
        raise InputError(f"cannot take {targets} of the {whole} targets of {dataset.name}")
    order = np.random.default_rng(seed).permutation(whole)[:targets]
    return dataset.with_targets(order)


def nested_subsets(
    dataset: RetrievalDataset,
    sizes: Sequence[int],
    split: str,
    *,
    same_pairs: bool = True,
    seed: int = 0,
) -> dict[int, RetrievalDataset]:
    """Return the data with fewer targets, by their number: each holds those of a smaller one.

    All queries of `split` are kept, and training queries; all relevant targets of a query that is
    kept are among the targets. The targets are in the order of the corpus.

    Args:
        dataset: The whole.
        sizes: Numbers of targets.
        split: The split to measure; the others, but for `train`, are left out.
        same_pairs: Train on the same pairs at every size, those whose targets fill the smallest
            size to 80%, so that nothing but the number of other targets differs. Otherwise each
            size has all training pairs whose targets it holds.
        seed: Random seed of the draw.
    """
    whole, random = len(dataset.targets), np.random.default_rng(seed)
    asked, pairs = dataset.split(split).pairs, dataset.split("train").pairs
    order, needed = random.permutation(whole), len(np.unique(asked[:, 1]))
    filled = int(_FILLED * min(sizes))
    if needed >= filled or max(sizes) > whole:
        rule = f"the targets of split {split} are {needed}, and those of a size are filled to 80%"
        raise InputError(f"cannot take {list(sizes)} of the {whole} targets: {rule}")
    relevant = asked[:, 1]
    if same_pairs:  # whole queries after one another
        turn = random.permutation(len(dataset.queries))[pairs[:, 0]]
        relevant = np.concatenate([relevant, pairs[np.argsort(turn, kind="stable"), 1]])
        relevant = _distinct(relevant)[:filled]
    order = _distinct(np.concatenate([relevant, order]))
    place = np.empty(whole, np.int64)
    place[order] = np.arange(whole)
    subsets = {}
    for size in sizes:
        held = place < (filled if same_pairs else size)
        kept = {"train": _whole_queries(dataset.split("train"), held), split: dataset.split(split)}
        subsets[size] = dataset.with_targets(np.sort(order[:size]), kept)
    return subsets


def _distinct(rows: Int[ndarray, " n"]) -> Int[ndarray, " m"]:
    """Keep the first of each row, in their order."""
    return rows[np.sort(np.unique(rows, return_index=True)[1])]


def _whole_queries(qrels: Qrels, held: Bool[ndarray, " t"]) -> Qrels:
    """Keep the judgements of queries all of whose relevant targets are held."""
    lacking = qrels.pairs[~held[qrels.pairs[:, 1]], 0]
    kept = ~np.isin(qrels.query, lacking)
    return Qrels(query=qrels.query[kept], target=qrels.target[kept], grade=qrels.grade[kept])
