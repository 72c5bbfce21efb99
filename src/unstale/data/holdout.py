"""Queries to measure on, taken out of training where the data has no split for that."""

import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import RetrievalDataset
from unstale.data.names import HELD_OUT, missing_splits
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_MOST_DEV, _FEWEST_DEV = 500, 20  # queries to choose weights by


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
    has = {*dataset.qrels, *dataset.questions}
    if missing := missing_splits(dataset.name, has, split, share):
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
    last = max(map(HELD_OUT.index, missing))
    wanted = [name for name in HELD_OUT[: 1 + last] if name not in has]
    rows = dataset.split("train").query_rows
    return _with(dataset, draw(dataset, rows, share, wanted, progress=progress))


def draw(
    dataset: RetrievalDataset,
    rows: Int[ndarray, " q"],
    share: float,
    wanted: Sequence[str],
    *,
    progress: bool = True,
) -> dict[str, Int[ndarray, " n"]]:
    """Draw a share of some queries for each split that is wanted; the others are `train`."""
    distinct = len(np.unique(dataset.queries.groups[rows]))
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
    return _parts(dataset, rows, wanted, count)


def _hold_out_dev(dataset: RetrievalDataset, share: float, *, progress: bool) -> RetrievalDataset:
    """Hold out half of the share as a dev split, at most 500 queries, if that makes 20 or more."""
    rows = dataset.split("train").query_rows
    distinct = len(np.unique(dataset.queries.groups[rows]))
    count = min(_MOST_DEV, round(share / 2 * distinct))
    if "dev" in dataset.qrels or "dev" in dataset.questions or count < _FEWEST_DEV:
        return dataset
    if progress:
        what = f"{count:,} of {distinct:,} training queries ({count / distinct:.0%})"
        rule = "to choose the weights by; --no-guard trains on them"
        _LOG.warning("%s has no dev split: %s are held out %s", dataset.name, what, rule)
    return _with(dataset, _parts(dataset, rows, ["dev"], count))


def _parts(
    dataset: RetrievalDataset, rows: Int[ndarray, " q"], names: Sequence[str], count: int
) -> dict[str, Int[ndarray, " n"]]:
    """Give the first `count` texts of the draw to each split, one after another; the rest train."""
    order, texts = _drawn(dataset, rows), dataset.queries.groups[rows]
    parts = {
        name: rows[np.isin(texts, order[place * count : (place + 1) * count])]
        for place, name in enumerate(names)
    }
    return parts | {"train": rows[~np.isin(texts, order[: count * len(names)])]}


def _with(dataset: RetrievalDataset, parts: Mapping[str, Int[ndarray, " n"]]) -> RetrievalDataset:
    """Return the dataset with its training queries in these splits."""
    train = dataset.split("train")
    qrels = {**dataset.qrels, **{name: train.of(rows) for name, rows in parts.items()}}
    held = [name for name in parts if name != "train"]
    return replace(dataset, qrels=qrels, held_out=(*dataset.held_out, *held))


def _drawn(dataset: RetrievalDataset, rows: Int[ndarray, " q"]) -> Int[ndarray, " n"]:
    """Order the distinct texts of some queries, each by its first row, by a hash of the text."""
    first = np.unique(dataset.queries.groups[rows])
    digests = (blake2b(t.encode(), digest_size=8).digest() for t in dataset.queries.take(first))
    keys = np.array([int.from_bytes(digest) for digest in digests], np.uint64)
    return first[np.argsort(keys, kind="stable")]
