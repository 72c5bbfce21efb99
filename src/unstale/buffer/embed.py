"""Embed a whole corpus once, to disk, so that a kill costs one shard and no more."""

from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from tqdm import tqdm

from unstale.buffer.buffer import (
    FORMAT,
    MANIFEST,
    TargetBuffer,
    check_maker,
    check_shards,
    read_manifest,
    write_manifest,
    write_shard,
)
from unstale.buffer.fingerprint import Fingerprint
from unstale.buffer.stored import DTYPES
from unstale.data.tokens import TokenStore
from unstale.distributed import barrier, exchange, first_alone, rank, world
from unstale.encoders.embed import dimension, embed_targets
from unstale.errors import InputError


def embed_corpus(
    model: SentenceTransformer,
    tokens: TokenStore,
    folder: Path,
    made_by: Fingerprint,
    *,
    dtype: str = "float32",
    shard_rows: int = 16_384,
    tokens_per_batch: int | None = None,
    progress: bool = True,
) -> tuple[TargetBuffer, int]:
    """Write the buffer of a corpus, or finish one that was interrupted.

    Args:
        tokens: The corpus, tokenised for the model's target tower.
        made_by: The fingerprint of model and corpus; an unfinished buffer of another is refused.
        dtype: float32, float16 for half the size, or int8 for a quarter.
        shard_rows: Targets to one shard, which is also what a kill can cost.
        tokens_per_batch: The most tokens, padding included, that one forward pass sees; by default
            what suits the device.

    Returns:
        The buffer, memory-mapped, and the number of targets embedded by this call.
    """
    if dtype not in DTYPES:
        raise InputError(f"a buffer holds {' or '.join(DTYPES)}, not {dtype!r}")
    with first_alone():
        if not (folder / MANIFEST).exists():
            sizes = [min(shard_rows, len(tokens) - s) for s in range(0, len(tokens), shard_rows)]
            shards = [{"file": f"shard-{i:05}.safetensors", "rows": n} for i, n in enumerate(sizes)]
            begun = {"format": FORMAT, "fingerprint": made_by, "dim": dimension(model)}
            write_manifest(folder, begun | {"dtype": dtype, "shards": shards})
        manifest = read_manifest(folder)
        check_maker(folder, manifest, made_by)
        if rank() == 0:
            check_shards(folder, whole=False)
    shards = manifest["shards"]
    started = np.cumsum([0, *[s["rows"] for s in shards]])
    missing = [i for i, s in enumerate(shards) if not s.get("sha256")]
    todo = sum(shards[i]["rows"] for i in missing)
    total, hidden = len(tokens), not progress
    with tqdm(
        total=total, initial=total - todo, desc="embedding", unit="target", disable=hidden
    ) as bar:
        # A shard to each process; the manifest follows, so that a kill costs these shards.
        for i in range(0, len(missing), world()):
            turn = missing[i : i + world()]
            done: tuple[int, str] | None = None
            if rank() < len(turn):
                mine = turn[rank()]
                rows = np.arange(started[mine], started[mine + 1])
                vectors = embed_targets(
                    model, tokens, rows, tokens_per_batch=tokens_per_batch, progress=bar
                )
                finite = torch.isfinite(vectors).all(dim=1).numpy()
                if not finite.all():
                    n = rows[~finite][0]
                    raise InputError(f"the encoder gave NaN or infinity for the target in row {n}")
                done = mine, write_shard(folder / shards[mine]["file"], vectors, manifest["dtype"])
            for place, checksum in filter(None, exchange(done)):
                shards[place]["sha256"] = checksum
            if rank() == 0:
                write_manifest(folder, manifest)
    barrier()
    return TargetBuffer.open(folder, made_by), todo
