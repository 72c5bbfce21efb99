"""Measure a model on one split, as often as asked."""

from collections.abc import Iterable
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.evaluation.metrics import means, measure, write_run
from unstale.evaluation.retrieve import fresh_chunks, retrieve
from unstale.files import atomic_file
from unstale.search.best import TopK


@final
class Evaluator:
    """Retrieve for the queries of a split and measure."""

    def __init__(
        self, dataset: RetrievalDataset, split: str, tokens: TokenStore, *, progress: bool = True
    ) -> None:
        self.dataset = dataset
        self.split = split
        self.found: TopK | None = None  # of the last evaluation
        self.values: dict[str, Float[ndarray, " q"]] = {}
        self._rows = dataset.split(split).query_rows
        self._tokens = tokens
        self._progress = progress

    def __call__(
        self,
        model: SentenceTransformer,
        corpus: Iterable[tuple[int, Float[Tensor, "n d"]]] | None = None,
    ) -> dict[str, float]:
        """Return the mean of every metric; the corpus is encoded unless its vectors are given."""
        if corpus is None:
            corpus = fresh_chunks(model, self._tokens, progress=self._progress)
        self.found = retrieve(model, self.dataset, self._rows, corpus)
        self.values = measure(self.dataset.split(self.split), self._rows, self.found)
        return means(self.values)

    def save(self, folder: Path, tag: str) -> None:
        """Write the last ranking as a TREC run, and every query's metrics as `SPLIT.npz`."""
        assert self.found is not None
        write_run(folder / f"{self.split}.run", self.dataset, self._rows, self.found, tag)
        with atomic_file(folder / f"{self.split}.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self.values)  # type: ignore[arg-type]
