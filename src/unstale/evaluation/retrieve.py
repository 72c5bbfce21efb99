"""Retrieve with an encoder as it is now: the whole corpus, encoded in bounded memory."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from tqdm import tqdm

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.distributed import share
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.evaluation.nearest import Corpus, Nearest
from unstale.search.best import TopK, drop

_CHUNK = 4096  # targets encoded and scored together, whatever the number of processes


def own_part(count: int) -> slice:
    """Return the rows of a corpus that this process encodes and scores, in whole chunks."""
    part = share(-(-count // _CHUNK))
    return slice(part.start * _CHUNK, min(part.stop * _CHUNK, count))


def fresh_chunks(
    model: SentenceTransformer, tokens: TokenStore, *, progress: bool = True
) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
    """Embed this process's share of the corpus piece by piece; nothing is kept."""
    own = own_part(len(tokens))
    total = own.stop - own.start
    with tqdm(total=total, desc="encoding", unit="target", disable=not progress) as bar:
        for start in range(own.start, own.stop, _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, own.stop))
            yield start, embed_targets(model, tokens, rows, device=model.device, progress=bar)


def cached_chunks(buffer: TargetBuffer) -> Iterator[tuple[int, Float[Tensor, "n d"]]]:
    """Read this process's share of a corpus that is embedded already."""
    own = own_part(len(buffer))
    yield from buffer.chunks(_CHUNK, own.start, own.stop)


def retrieve(
    model: SentenceTransformer,
    dataset: RetrievalDataset,
    query_rows: Int[ndarray, " q"],
    corpus: Corpus,
    k: int = 100,
    *,
    own: bool = False,
) -> TopK:
    """Return the k best targets of each query, or all if there are fewer.

    The corpus comes in pieces, from `fresh_chunks` or `cached_chunks`, and is scored on the model's
    device. Unless `own` is set, a query does not find the target that has its own id: BEIR's rule.
    """
    queries = embed_queries(model, dataset.queries.take(query_rows)).to(model.device)
    banned = torch.full((len(query_rows), 1), -1) if own else own_rows(dataset, query_rows)
    k = min(k, len(dataset.targets) - int((banned >= 0).any()))
    nearest = Nearest(queries, min(k + 1, len(dataset.targets)))
    for start, vectors in corpus:
        nearest.see(start, vectors)
    return drop(nearest.best(), banned, k)


def own_rows(dataset: RetrievalDataset, query_rows: Int[ndarray, " q"]) -> Int[Tensor, "q 1"]:
    """Find the target whose id equals the query's, or -1."""
    found = dataset.target_ids.find(dataset.query_ids.take(query_rows))
    return torch.from_numpy(found)[:, None]
