"""Vectors of targets and queries by several encoders, embedded once and kept: a kill costs little.

`FOLDER/targets` is a buffer in small shards; `FOLDER/queries.safetensors` has the queries.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from numpy import ndarray
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.files import atomic_file

SHARD_ROWS = 128  # a minute's work of a large encoder on a CPU


class Vectors(NamedTuple):
    """What one encoder makes of the data."""

    targets: Float[Tensor, "n d"]
    queries: Float[Tensor, "q d"]


def embed_with(
    names: Mapping[str, str],
    dataset: RetrievalDataset,
    query_rows: Int[ndarray, " q"],
    folder: Path,
    max_length: int,
) -> dict[str, Vectors]:
    """Embed the data with several encoders, each in a folder named as its key says."""
    return {
        key: embedded(
            load_encoder(name, query_max_length=max_length, target_max_length=max_length),
            dataset,
            query_rows,
            folder / key,
        )
        for key, name in names.items()
    }


def embedded(
    model: SentenceTransformer,
    dataset: RetrievalDataset,
    query_rows: Int[ndarray, " q"],
    folder: Path,
) -> Vectors:
    """Embed all targets and some queries, or take from the folder what is there."""
    path = folder / "queries.safetensors"
    rows = torch.from_numpy(query_rows)
    if not path.is_file():
        queries = embed_queries(model, dataset.queries.take(query_rows), batch_size=32)
        with atomic_file(path) as temporary:
            save_file({"queries": queries, "rows": rows}, temporary)
    stored = load_file(path)
    if not torch.equal(stored["rows"], rows):
        raise InputError(f"{path} holds other queries; use another output folder")
    buffer, _ = embed_corpus(
        model,
        target_tokens(model, dataset),
        folder / "targets",
        fingerprint(model, dataset.targets),
        shard_rows=SHARD_ROWS,
        tokens_per_batch=1024,
    )
    return Vectors(buffer[torch.arange(len(buffer))], stored["queries"])
