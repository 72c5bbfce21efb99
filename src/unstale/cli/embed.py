"""`unstale embed`."""

from pathlib import Path

from unstale.buffer.buffer import MANIFEST
from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import open_output, save_config
from unstale.data.load import load_dataset
from unstale.encoders.tokenise import target_tokens


def run(chosen: options.Embed) -> None:
    """Embed a corpus, or finish a buffer that was interrupted."""
    open_output(
        chosen.output,
        overwrite=chosen.overwrite,
        resume=chosen.resume,
        dry=True,
        needs=(chosen.data, chosen.model),
    )
    dataset = load_dataset(chosen.data)
    model = open_encoder(chosen)
    output: Path = open_output(chosen.output, overwrite=chosen.overwrite, resume=chosen.resume)
    save_config(output, "embed", chosen)
    tokens = target_tokens(model, dataset)
    buffer, embedded = embed_corpus(
        model,
        tokens,
        output,
        fingerprint(model, dataset.targets),
        dtype=chosen.dtype,
        shard_rows=chosen.shard_rows,
        tokens_per_batch=chosen.tokens_per_batch,
    )
    print(f"{len(buffer):,} targets of {buffer.dim} dimensions, {embedded:,} embedded now")
    if tokens.truncated:
        print(f"{tokens.truncated:,} targets were cut at the model's maximum length")
    print(f"buffer: {output / MANIFEST}")
