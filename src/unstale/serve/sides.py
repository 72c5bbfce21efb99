"""Two encoders side by side: what each finds for a query, and where the other has it."""

from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.encoders.embed import embed_queries
from unstale.search.best import TopK
from unstale.search.exact import Exact

_CHUNK = 16_384


@final
class Hit(NamedTuple):
    """A target that one side found: its place, its score, and its place on the other side."""

    row: int
    rank: int
    score: float
    other_rank: int


@final
class Side:
    """An encoder and the corpus as it embeds it."""

    def __init__(self, model: SentenceTransformer, buffer: TargetBuffer) -> None:
        self.model = model
        self.buffer = buffer
        self._search = Exact(buffer)

    def embed(self, query: str) -> Float[Tensor, "1 d"]:
        """Embed one query."""
        return embed_queries(self.model, [query])

    def best(self, vector: Float[Tensor, "1 d"], k: int) -> TopK:
        """Find the k best targets."""
        return self._search.top_k(vector, min(k, len(self.buffer)))

    def ranks(self, vector: Float[Tensor, "1 d"], rows: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """Return the places of some targets among all: one more than score higher."""
        own = self.buffer[rows] @ vector[0]
        nearer = torch.zeros_like(rows)
        for start, vectors in self.buffer.chunks(_CHUNK):
            other = torch.arange(start, start + len(vectors)) != rows[:, None]
            nearer += ((vectors @ vector[0] > own[:, None]) & other).sum(dim=1)
        return nearer + 1


def compare(before: Side, after: Side, query: str, k: int) -> tuple[list[Hit], list[Hit]]:
    """Return what each side finds, best first, with its places on the other side."""
    vectors = {side: side.embed(query) for side in (before, after)}
    found = []
    for side, other in ((before, after), (after, before)):
        best = side.best(vectors[side], k)
        places = other.ranks(vectors[other], best.rows[0])
        columns = best.rows[0].tolist(), best.scores[0].tolist(), places.tolist()
        found.append(
            [
                Hit(row, rank, score, place)
                for rank, (row, score, place) in enumerate(zip(*columns, strict=True), 1)
            ]
        )
    return found[0], found[1]
