"""Embed a whole corpus once, to disk, so that a kill costs one shard and no more."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tqdm import tqdm

from unstale.buffer.buffer import (
    DTYPES,
    FORMAT,
    MANIFEST,
    TargetBuffer,
    check_maker,
    read_manifest,
)
from unstale.buffer.fingerprint import Fingerprint, fingerprint
from unstale.data.dataset import Texts
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import TOKENS_PER_BATCH, dimension, embed_targets
from unstale.errors import InputError
from unstale.files import atomic_file, write_json


def embed_corpus(
    model: SentenceTransformer,
    tokens: TokenStore,
    folder: Path,
    made_by: Fingerprint,
    *,
    dtype: str = "float32",
    shard_rows: int = 16_384,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    progress: bool = True,
) -> tuple[TargetBuffer, int]:
    """Write the buffer of a corpus, or finish one that was interrupted.

    Args:
        model: The encoder; its target tower runs in evaluation mode.
        tokens: The corpus, tokenised for that tower.
        folder: Where the shards and the manifest go.
        made_by: The fingerprint of model and corpus; an unfinished buffer of another is refused.
        dtype: float32, or float16 for half the size.
        shard_rows: Targets to one shard, which is also what a kill can cost.
        tokens_per_batch: The most tokens, padding included, that one forward pass sees.
        progress: Show a bar with the time left.

    Returns:
        The buffer, memory-mapped, and the number of targets embedded by this call.
    """
    if dtype not in DTYPES:
        raise InputError(f"a buffer holds {' or '.join(DTYPES)}, not {dtype!r}")
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder)
        check_maker(folder, manifest, made_by)
    else:
        sizes = [min(shard_rows, len(tokens) - s) for s in range(0, len(tokens), shard_rows)]
        shards = [{"file": f"shard-{i:05}.safetensors", "rows": n} for i, n in enumerate(sizes)]
        manifest = {"format": FORMAT, "fingerprint": made_by, "dim": dimension(model)}
        manifest |= {"dtype": dtype, "shards": shards}
        write_json(folder / MANIFEST, manifest)

    embedded, start = 0, 0
    done = sum(s["rows"] for s in manifest["shards"] if s.get("sha256"))
    with tqdm(
        total=len(tokens), initial=done, desc="embedding", unit="target", disable=not progress
    ) as bar:
        for shard in manifest["shards"]:
            rows = np.arange(start, start + shard["rows"])
            start += shard["rows"]
            if shard.get("sha256"):
                continue
            vectors = embed_targets(
                model, tokens, rows, tokens_per_batch=tokens_per_batch, progress=bar
            )
            if not torch.isfinite(vectors).all():
                bad = int(rows[~torch.isfinite(vectors).all(dim=1).numpy()][0])
                raise InputError(f"the encoder gave NaN or infinity for the target in row {bad}")
            with atomic_file(folder / shard["file"]) as temporary:
                save_file({"vectors": vectors.to(DTYPES[manifest["dtype"]])}, temporary)
                shard["sha256"] = hashlib.sha256(temporary.read_bytes()).hexdigest()
            write_json(folder / MANIFEST, manifest)
            embedded += len(rows)
    return TargetBuffer.open(folder, made_by), embedded


def open_or_embed(
    model: SentenceTransformer,
    targets: Texts,
    tokens: TokenStore,
    made: Path | None,
    folder: Path,
    dtype: str = "float32",
    *,
    progress: bool = True,
) -> tuple[TargetBuffer, int]:
    """Open the buffer `made`, if it is this model's, or embed into `folder`; count what was."""
    made_by = fingerprint(model, targets)
    if made is not None:
        return TargetBuffer.open(made, made_by), 0
    return embed_corpus(model, tokens, folder, made_by, dtype=dtype, progress=progress)
