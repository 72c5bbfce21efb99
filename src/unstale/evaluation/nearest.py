"""The nearest targets of some queries, of a corpus that passes by, each process with its share."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from unstale.search.best import TopK, in_order, merge, nothing
from unstale.search.sharded import merge_processes

Corpus = Iterable[tuple[int, Float[Tensor, "_ d"]]]  # (first row, vectors) of this process's rows
_QUERIES = 2048  # scored at once


@final
class Nearest:
    """Keep the k best targets of each query, where the queries are, as pieces of a corpus pass by.

    Every process sees its own rows; `best` is the same in all of them.
    """

    def __init__(self, queries: Float[Tensor, "q d"], k: int) -> None:
        self.k = k
        self._parts = queries.split(_QUERIES)
        self._best = [nothing(part) for part in self._parts]

    @torch.no_grad()
    def see(self, start: int, vectors: Float[Tensor, "n d"]) -> None:
        """Rank a piece of the corpus, whose first row is `start`."""
        with full_products():
            for i, part in enumerate(self._parts):
                scores = part @ vectors.to(part).T
                self._best[i] = merge(self._best[i], scores, start, self.k)

    def best(self) -> TopK:
        """Return the best over all processes, in main memory; of equal scores the first row first.

        All processes must ask at the same time.
        """
        columns = zip(*self._best, strict=True)
        whole = merge_processes(TopK(*(torch.cat(column) for column in columns)), self.k)
        return in_order(TopK(whole.scores.cpu(), whole.rows.cpu()))


@contextmanager
def full_products() -> Iterator[None]:
    """Multiply in float32 throughout: in TF32 targets that are nearly as good change ranks."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)
