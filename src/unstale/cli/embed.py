"""`unstale embed`."""

from unstale.buffer.buffer import MANIFEST
from unstale.buffer.embed import Part, PartDone, embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli import options
from unstale.cli.output import run_folder
from unstale.cli.read import open_encoder, read_data
from unstale.distributed import first_alone, rank, start
from unstale.encoders.tokenise import target_tokens
from unstale.shown import say


def run(chosen: options.EmbedFlags) -> None:
    """Embed a corpus, or finish a buffer that was interrupted."""
    start(chosen.device)
    with run_folder("embed", chosen) as folder:
        model = open_encoder(chosen)
        dataset = read_data(chosen.data, strict=chosen.strict)
        with first_alone():
            tokens = target_tokens(model, dataset, progress=rank() == 0)
        output = folder.begin()
        try:
            buffer, embedded = embed_corpus(
                model,
                tokens,
                output,
                fingerprint(model, dataset.targets),
                dtype=chosen.dtype,
                shard_rows=chosen.shard_rows,
                tokens_per_batch=chosen.tokens_per_batch,
                progress=rank() == 0,
                part=Part.read(chosen.shard),
                engine=chosen.engine,
            )
        except PartDone as said:
            say(str(said))
            return
    if rank() > 0:
        return
    say(f"{len(buffer):,} targets of {buffer.dim} dimensions, {embedded:,} embedded now")
    if tokens.truncated:
        say(f"{tokens.truncated:,} targets were cut at the model's maximum length")
    say(f"buffer: {output / MANIFEST}")
