"""Retrieve with an encoder as it is now: the whole corpus, encoded in bounded memory."""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from tqdm import tqdm

from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import embed_queries, embed_together
from unstale.search.best import TopK, drop, merge, nothing

_CHUNK = 16_384
_QUERIES = 2048  # a chunk of scores is at most _CHUNK x _QUERIES


def fresh_chunks(
    model: SentenceTransformer, tokens: TokenStore, *, progress: bool = True
) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
    """Embed the corpus piece by piece; nothing is kept."""
    with tqdm(total=len(tokens), desc="encoding", unit="target", disable=not progress) as bar:
        for start in range(0, len(tokens), _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, len(tokens)))
            yield start, embed_together(model, tokens, rows, progress=bar)


def retrieve(
    model: SentenceTransformer,
    dataset: RetrievalDataset,
    query_rows: Int[ndarray, " q"],
    corpus: Iterable[tuple[int, Float[Tensor, "n d"]]],
    k: int = 100,
    *,
    own: bool = False,
) -> TopK:
    """Return the k best targets of each query, or all if there are fewer.

    The corpus comes in pieces, from `fresh_chunks` or a buffer's `chunks`. Unless `own` is set, a
    query does not find the target that has its own id: BEIR's rule.
    """
    queries = embed_queries(model, dataset.queries.take(query_rows))
    banned = torch.full((len(query_rows), 1), -1) if own else own_rows(dataset, query_rows)
    k = min(k, len(dataset.targets) - int((banned >= 0).any()))
    fetch = min(k + 1, len(dataset.targets))
    parts = queries.split(_QUERIES)
    best = [nothing(part) for part in parts]
    for start, vectors in corpus:
        for i, part in enumerate(parts):
            best[i] = merge(best[i], part @ vectors.cpu().T, start, fetch)
    whole = TopK(torch.cat([b.scores for b in best]), torch.cat([b.rows for b in best]))
    return drop(whole, banned, k)


def own_rows(dataset: RetrievalDataset, query_rows: Int[ndarray, " q"]) -> Int[Tensor, "q 1"]:
    """Find the target whose id equals the query's, or -1."""
    wanted = {key: i for i, key in enumerate(dataset.query_ids.take(query_rows))}
    own = torch.full((len(query_rows), 1), -1)
    for start, ids in dataset.target_ids.chunks(65_536):
        for offset, key in enumerate(ids):
            if key in wanted:
                own[wanted[key], 0] = start + offset
    return own
