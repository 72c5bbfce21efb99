"""Measure a model on one or several splits and on some training queries, as often as asked."""

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
from unstale.encoders.embed import in_float32
from unstale.errors import InputError
from unstale.evaluation.by_answer import answer_recall, first_answers, has_answers
from unstale.evaluation.metrics import means, measure, write_run
from unstale.evaluation.retrieve import fresh_chunks, retrieve
from unstale.files import atomic_file
from unstale.search.best import TopK

SAMPLED = 1000  # queries of a split at most that a run measures itself on


def sample_queries(
    dataset: RetrievalDataset, seed: int, split: str = "train"
) -> Int[ndarray, " q"]:
    """Draw queries that a run measures itself on, sorted; all if there are few."""
    rows = dataset.split(split).query_rows
    if len(rows) > SAMPLED:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:SAMPLED])
    return rows


def splits_to_measure(dataset: RetrievalDataset, names: str) -> list[str]:
    """Read the splits, separated by commas; refuse one that has no queries to measure."""
    splits = [name.strip() for name in names.split(",")]
    for split in splits:
        if not len(dataset.query_rows(split)):
            raise InputError(f"{dataset.name}: the split {split!r} has no query to measure")
    if len(set(splits)) < len(splits):
        raise InputError(f"a split is named twice: {names}")
    return splits


NO_QUERIES = np.zeros(0, np.int64)


@final
class Ranking(NamedTuple):
    """Some queries, and the best targets of each over the whole corpus."""

    rows: Int[ndarray, " q"]
    found: TopK


@final
class Evaluator:
    """Retrieve for the queries of some splits, and for some training queries, and measure.

    A split with qrels is measured by them; one whose queries all have answers by those, too. The
    metrics of a split beside the first are called `SPLIT:METRIC`.

    Args:
        splits: One split, or several separated by commas.
        train_rows: Training queries to rank against the same corpus: how much a model memorises.
        dev_rows: Dev queries to rank against it, too: they choose the weights that a run keeps.
    """

    def __init__(
        self,
        dataset: RetrievalDataset,
        splits: str,
        tokens: TokenStore,
        train_rows: Int[ndarray, " t"] = NO_QUERIES,
        dev_rows: Int[ndarray, " v"] = NO_QUERIES,
        *,
        progress: bool = True,
    ) -> None:
        self.dataset = dataset
        self.rows = {s: dataset.query_rows(s) for s in splits_to_measure(dataset, splits)}
        self.split = next(iter(self.rows))  # the first
        self.evaluated: Ranking  # what the last evaluation found for the first split's queries,
        self.trained: Ranking  # and for those of training
        self.values: dict[str, dict[str, Float[ndarray, " q"]]] = {}  # by split
        self.train: dict[str, float] = {}  # the means over the training queries
        self._rankings: dict[str, Ranking] = {}
        self.dev: dict[str, float] = {}  # and over the dev queries
        self._train_rows, self._dev_rows = train_rows, dev_rows
        self._tokens = tokens
        self._progress = progress

    def __call__(
        self,
        model: SentenceTransformer,
        corpus: Iterable[tuple[int, Float[Tensor, "n d"]]] | None = None,
    ) -> dict[str, float]:
        """Return the means of every metric, and leave those of training in `train`.

        The corpus is encoded, once for all, unless its vectors are given; in float32, as whoever
        loads the model will, even while it is trained in mixed precision.
        """
        if corpus is None:
            corpus = fresh_chunks(model, self._tokens, progress=self._progress)
        several = [*self.rows.values(), self._dev_rows, self._train_rows]  # they may overlap
        asked = np.unique(np.concatenate(several))
        with in_float32(model):
            found = retrieve(model, self.dataset, asked, corpus)
        *rankings, dev, self.trained = (
            Ranking(rows, TopK(*(part[np.searchsorted(asked, rows)] for part in found)))
            for rows in several
        )
        self.evaluated, self._rankings = rankings[0], dict(zip(self.rows, rankings, strict=True))
        self.values = {s: self._measured(s, own) for s, own in self._rankings.items()}
        if len(self._train_rows):
            self.train = means(self._measured("train", self.trained))
        if len(self._dev_rows):
            self.dev = means(self._measured("dev", dev))
        first, *others = self.rows
        further = {f"{s}:{m}": x for s in others for m, x in means(self.values[s]).items()}
        return means(self.values[first]) | further

    def _measured(self, split: str, ranking: Ranking) -> dict[str, Float[ndarray, " q"]]:
        """Return every metric of every query of a split: by gold targets, and by answers."""
        values: dict[str, Float[ndarray, " q"]] = {}
        if split in self.dataset.qrels:
            values |= measure(self.dataset.split(split), *ranking)
        if has_answers(self.dataset, ranking.rows):
            values |= answer_recall(first_answers(self.dataset, *ranking))
        return values

    def point(self, model: SentenceTransformer) -> dict[str, float]:
        """Return a point of a curve: the means, and as `train_...` those of training."""
        return self(model) | {f"train_{name}": mean for name, mean in self.train.items()}

    def save(self, folder: Path, tag: str) -> None:
        """Write the last rankings as TREC runs, and every query's metrics as `SPLIT.npz`."""
        for split, ranking in self._rankings.items():
            write_run(folder / f"{split}.run", self.dataset, *ranking, tag)
            with atomic_file(folder / f"{split}.npz") as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **self.values[split])  # type: ignore[arg-type]
