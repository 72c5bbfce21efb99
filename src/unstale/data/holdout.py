"""Queries to measure on, taken out of training where the data has no split for that."""

import logging
from collections.abc import Container, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_MOST_DEV, _FEWEST_DEV = 500, 20  # queries to choose weights by
_SPLITS = ("test", "dev")  # those that can be held out, in the order in which they are drawn


def hold_out(
    dataset: RetrievalDataset,
    split: str,
    share: float,
    *,
    dev: bool = False,
    progress: bool = True,
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
        dev: Also hold out a few queries to choose weights by, if there is no split `dev`.
        progress: Say how many queries are held out.
    """
    names, has = [name.strip() for name in split.split(",")], {*dataset.qrels, *dataset.questions}
    missing = [name for name in names if name not in has]
    for name in missing:
        if name not in _SPLITS or "train" not in has:
            dataset.split(name)  # refuses it
    if missing and not share:
        rule = "--holdout 0.1 takes a tenth of the training queries for it"
        raise InputError(f"{dataset.name} has no split {missing[0]!r}; {rule}")
    if missing:
        dataset = _hold_out_missing(dataset, missing, has, share, progress=progress)
    return _hold_out_dev(dataset, share, progress=progress) if dev else dataset


def _hold_out_missing(
    dataset: RetrievalDataset,
    missing: Sequence[str],
    has: Container[str],
    share: float,
    *,
    progress: bool,
) -> RetrievalDataset:
    last = max(map(_SPLITS.index, missing))
    wanted = [name for name in _SPLITS[: 1 + last] if name not in has]
    distinct = _distinct(dataset)
    count = max(1, round(share * distinct))
    if count * len(wanted) >= distinct:
        rule = f"cannot hold out {count * len(wanted)} of {distinct} training queries"
        raise InputError(f"{dataset.name}: {rule}; --holdout {share} is too much")
    if progress:
        share_of = f"{count:,} of {distinct:,} training queries ({count / distinct:.0%})"
        rule = "the same ones every time; --holdout changes the share"
        lacks = " and ".join(f"{name} split" for name in wanted)
        for_each = " for each" if len(wanted) > 1 else ""
        said = f"{share_of} are held out{for_each}, {rule}"
        _LOG.warning("%s has no %s: %s", dataset.name, lacks, said)
    return _take_out(dataset, wanted, count)


def _hold_out_dev(dataset: RetrievalDataset, share: float, *, progress: bool) -> RetrievalDataset:
    """Hold out half of the share as a dev split, at most 500 queries, if that makes 20 or more."""
    distinct = 0 if "dev" in dataset.qrels else _distinct(dataset)
    count = min(_MOST_DEV, round(share / 2 * distinct))
    if count < _FEWEST_DEV:
        return dataset
    if progress:
        what = f"{count:,} of {distinct:,} training queries ({count / distinct:.0%})"
        rule = "to choose the weights by; --no-guard trains on them"
        _LOG.warning("%s has no dev split: %s are held out %s", dataset.name, what, rule)
    return _take_out(dataset, ["dev"], count)


def _take_out(dataset: RetrievalDataset, names: Sequence[str], count: int) -> RetrievalDataset:
    """Move the pairs of the first `count` queries of the draw to each split, one after another."""
    train, texts = dataset.split("train"), dataset.queries.groups
    order, qrels = _drawn(dataset, train.query_rows), dict(dataset.qrels)
    for place, name in enumerate(names):
        held = np.isin(texts[train.query], order[place * count : (place + 1) * count])
        qrels[name] = train.take(held)
    every = np.isin(texts[train.query], order[: count * len(names)])
    qrels["train"] = train.take(~every)
    return replace(dataset, qrels=qrels, held_out=(*dataset.held_out, *names))


def _distinct(dataset: RetrievalDataset) -> int:
    """Count the training queries with different texts."""
    return len(np.unique(dataset.queries.groups[dataset.split("train").query_rows]))


def _drawn(dataset: RetrievalDataset, rows: Int[ndarray, " q"]) -> Int[ndarray, " n"]:
    """Order the distinct texts of some queries, each by its first row, by a hash of the text."""
    first = np.unique(dataset.queries.groups[rows])
    digests = (blake2b(t.encode(), digest_size=8).digest() for t in dataset.queries.take(first))
    keys = np.array([int.from_bytes(digest) for digest in digests], np.uint64)
    return first[np.argsort(keys, kind="stable")]
