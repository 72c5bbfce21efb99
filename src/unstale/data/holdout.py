"""Queries to measure on, taken out of training where the data has no split for that."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_SPLITS = ("test", "dev")  # those that can be held out, in the order in which they are drawn


def hold_out(
    dataset: RetrievalDataset, split: str, share: float, *, progress: bool = True
) -> RetrievalDataset:
    """Return the dataset with a split to measure on, taken out of `train` if there is none.

    Queries are drawn by a hash of their text: the same ones every time, whatever the order of the
    rows, and mostly the same ones when rows are added. Queries with equal texts stay together. With
    `dev` a missing `test` is held out, too, so that no later training sees its queries. The targets
    stay in the corpus.

    Args:
        dataset: The data.
        split: The split to measure on, or several separated by commas. Only `test` and `dev` can be
            held out; others must be there.
        share: The share of the training queries to hold out for each split; 0 refuses.
        progress: Say how many queries are held out.
    """
    names, has = [name.strip() for name in split.split(",")], {*dataset.qrels, *dataset.questions}
    missing = [name for name in names if name not in has]
    for name in missing:
        if name not in _SPLITS or "train" not in has:
            dataset.split(name)  # refuses it
    if not missing:
        return dataset
    if not share:
        rule = "--holdout 0.1 takes a tenth of the training queries for it"
        raise InputError(f"{dataset.name} has no split {missing[0]!r}; {rule}")
    last = max(map(_SPLITS.index, missing))
    wanted = [name for name in _SPLITS[: 1 + last] if name not in has]
    train = dataset.split("train")
    drawn = draw(dataset, train.query_rows, share, wanted, progress=progress)
    parts = {name: train.of(rows) for name, rows in drawn.items()}
    return replace(dataset, qrels={**dataset.qrels, **parts}, held_out=tuple(wanted))


def draw(
    dataset: RetrievalDataset,
    rows: Int[ndarray, " q"],
    share: float,
    wanted: Sequence[str],
    *,
    progress: bool = True,
) -> dict[str, Int[ndarray, " n"]]:
    """Draw a share of some queries for each split that is wanted; the others are `train`."""
    order = _drawn(dataset, rows)
    texts = dataset.queries.groups[rows]
    distinct = len(order)
    count = max(1, round(share * distinct))
    if count * len(wanted) >= distinct:
        rule = f"cannot hold out {count * len(wanted)} of {distinct} training queries"
        raise InputError(f"{dataset.name}: {rule}; --holdout {share} is too much")
    parts = {}
    for place, name in enumerate(wanted):
        parts[name] = rows[np.isin(texts, order[place * count : (place + 1) * count])]
    parts["train"] = rows[~np.isin(texts, order[: count * len(wanted)])]
    if progress:
        share_of = f"{count:,} of {distinct:,} training queries ({count / distinct:.0%})"
        rule = "the same ones every time; --holdout changes the share"
        lacks = " and ".join(f"{name} split" for name in wanted)
        for_each = " for each" if len(wanted) > 1 else ""
        said = f"{share_of} are held out{for_each}, {rule}"
        _LOG.warning("%s has no %s: %s", dataset.name, lacks, said)
    return parts


def _drawn(dataset: RetrievalDataset, rows: Int[ndarray, " q"]) -> Int[ndarray, " n"]:
    """Order the distinct texts of some queries, each by its first row, by a hash of the text."""
    first = np.unique(dataset.queries.groups[rows])
    digests = (blake2b(t.encode(), digest_size=8).digest() for t in dataset.queries.take(first))
    keys = np.array([int.from_bytes(digest) for digest in digests], np.uint64)
    return first[np.argsort(keys, kind="stable")]
