"""Measure a model on one split and on some training queries, as often as asked."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.evaluation.metrics import means, measure, write_run
from unstale.evaluation.retrieve import fresh_chunks, retrieve
from unstale.files import atomic_file
from unstale.search.best import TopK

TRAIN_QUERIES = 1000  # the largest sample of training queries


def sample_queries(dataset: RetrievalDataset, seed: int) -> Int[ndarray, " q"]:
    """Draw the training queries that a run measures itself on, sorted; all if there are few."""
    rows = dataset.split("train").query_rows
    if len(rows) > TRAIN_QUERIES:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:TRAIN_QUERIES])
    return rows


@final
class Ranking(NamedTuple):
    """Some queries, and the best targets of each over the whole corpus."""

    rows: Int[ndarray, " q"]
    found: TopK


@final
class Evaluator:
    """Retrieve for the queries of a split, and for some training queries, and measure.

    Args:
        train_rows: Training queries to rank against the same corpus: how much a model memorises.
    """

    def __init__(
        self,
        dataset: RetrievalDataset,
        split: str,
        tokens: TokenStore,
        *,
        train_rows: Int[ndarray, " t"] | None = None,
        progress: bool = True,
    ) -> None:
        self.dataset = dataset
        self.split = split
        self.evaluated: Ranking  # what the last evaluation found for the split's queries,
        self.trained: Ranking  # and for those of training
        self.values: dict[str, Float[ndarray, " q"]] = {}
        self.train: dict[str, float] = {}  # the means over the training queries
        self._rows = dataset.split(split).query_rows
        self._train_rows = np.zeros(0, np.int64) if train_rows is None else train_rows
        self._tokens = tokens
        self._progress = progress

    def __call__(
        self,
        model: SentenceTransformer,
        corpus: Iterable[tuple[int, Float[Tensor, "n d"]]] | None = None,
    ) -> dict[str, float]:
        """Return the split's means of every metric, and leave those of training in `train`.

        The corpus is encoded, once for both, unless its vectors are given.
        """
        if corpus is None:
            corpus = fresh_chunks(model, self._tokens, progress=self._progress)
        asked = np.union1d(self._rows, self._train_rows)  # a split may be that of training
        found = retrieve(model, self.dataset, asked, corpus)
        self.evaluated, self.trained = (
            Ranking(rows, TopK(*(part[np.searchsorted(asked, rows)] for part in found)))
            for rows in (self._rows, self._train_rows)
        )
        self.values = measure(self.dataset.split(self.split), *self.evaluated)
        if len(self._train_rows):
            self.train = means(measure(self.dataset.split("train"), *self.trained))
        return means(self.values)

    def point(self, model: SentenceTransformer) -> dict[str, float]:
        """Return a point of a curve: the split's means, and as `train_...` those of training."""
        return self(model) | {f"train_{name}": mean for name, mean in self.train.items()}

    def save(self, folder: Path, tag: str) -> None:
        """Write the last ranking as a TREC run, and every query's metrics as `SPLIT.npz`."""
        write_run(folder / f"{self.split}.run", self.dataset, *self.evaluated, tag)
        with atomic_file(folder / f"{self.split}.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self.values)  # type: ignore[arg-type]
