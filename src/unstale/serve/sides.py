"""Two encoders side by side: what each finds for a query, and where the other has it."""

from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.encoders.embed import embed_queries
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
@dataclass(frozen=True, eq=False)
class Side:
    """An encoder and the corpus as it embeds it."""

    model: SentenceTransformer
    buffer: TargetBuffer

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
    k = min(k, len(before.buffer))
    vectors = {side: embed_queries(side.model, [query]) for side in (before, after)}
    found = []
    for side, other in ((before, after), (after, before)):
        best = Exact(side.buffer).top_k(vectors[side], k)
        places = other.ranks(vectors[other], best.rows[0])
        columns = best.rows[0].tolist(), range(1, k + 1), best.scores[0].tolist(), places.tolist()
        found.append([Hit(*hit) for hit in zip(*columns, strict=True)])
    return found[0], found[1]
