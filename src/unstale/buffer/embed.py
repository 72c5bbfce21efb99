"""Embed a whole corpus once, to disk, so that a kill costs one shard and no more."""

from pathlib import Path
from typing import Any, NamedTuple, final

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
from unstale.files import atomic_file


class Part(NamedTuple):
    """Which part of the shards a process embeds: each `of`-th, from `number` on."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str | None) -> "Part | None":
        """Read `I/N`; parts are counted from 0.

        Example:
            >>> Part.read("2/8")
            Part(number=2, of=8)
        """
        if text is None:
            return None
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
            raise InputError(f"--shard must be I/N with I from 0 to N - 1, as 0/8, got {text!r}")
        return cls(int(number), int(of))


@final
class PartDone(Exception):  # noqa: N818 - not an error
    """A part is embedded; the parts must be joined before anything else can be done."""

    def __init__(self, part: Part, folder: Path, shards: int, lacking: int) -> None:
        told = f"part {part.number}/{part.of} of {folder} is embedded"
        left = f"{lacking} of {shards} pieces are missing" if lacking else "no piece is missing"
        rest = "once all parts are done" if lacking else "now"
        super().__init__(f"{told}; {left}: run the command {rest} with --resume, without --shard")


def _begin(folder: Path, begun: dict[str, Any], sizes: list[int]) -> dict[str, Any]:
    """Read the manifest of a buffer; write it first if there is none yet."""
    if not (folder / MANIFEST).exists():
        shards = [{"file": f"shard-{i:05}.safetensors", "rows": n} for i, n in enumerate(sizes)]
        write_manifest(folder, begun | {"shards": shards})
    return read_manifest(folder)


def _adopt(folder: Path, manifest: dict[str, Any]) -> None:
    """Enter the shards that parts wrote, with the checksums that they left beside them."""
    told = [(shard, _told(folder, shard)) for shard in manifest["shards"]]
    told = [(shard, place) for shard, place in told if place.is_file()]
    if not told:
        return
    for shard, place in told:
        shard["sha256"] = place.read_text("ascii")
    write_manifest(folder, manifest)
    for _, place in told:
        place.unlink()


def _told(folder: Path, shard: dict[str, Any]) -> Path:
    """Name the file in which a part says that it has written a shard: its checksum."""
    return folder / f"{shard['file']}.sha256"


def _missing(folder: Path, shards: list[dict[str, Any]], part: Part | None) -> list[int]:
    """List the shards that are still to be written, by this part if there are several."""
    missing = [i for i, s in enumerate(shards) if not s.get("sha256")]
    if part is None:
        return missing
    own = [i for i in missing if i % part.of == part.number]
    return [i for i in own if not _told(folder, shards[i]).is_file()]


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
    part: Part | None = None,
) -> tuple[TargetBuffer, int]:
    """Write the buffer of a corpus, or finish one that was interrupted.

    Args:
        tokens: The corpus, tokenised for the model's target tower.
        made_by: The fingerprint of model and corpus; an unfinished buffer of another is refused.
        dtype: float32, float16 for half the size, or int8 for a quarter.
        shard_rows: Targets to one shard, which is also what a kill can cost.
        tokens_per_batch: The most tokens, padding included, that one forward pass sees; by default
            what suits the device.
        part: Embed only this part, beside other processes that embed the others, and raise
            `PartDone` at its end: a later call without a part joins them.

    Returns:
        The buffer, memory-mapped, and the number of targets embedded by this call.
    """
    if dtype not in DTYPES:
        raise InputError(f"a buffer holds {' or '.join(DTYPES)}, not {dtype!r}")
    with first_alone():
        sizes = [min(shard_rows, len(tokens) - s) for s in range(0, len(tokens), shard_rows)]
        begun = {"format": FORMAT, "fingerprint": made_by, "dim": dimension(model), "dtype": dtype}
        manifest = _begin(folder, begun, sizes)
        check_maker(folder, manifest, made_by)
        if rank() == 0:
            check_shards(folder, whole=False)
            if part is None:
                _adopt(folder, manifest)
    shards = manifest["shards"]
    started = np.cumsum([0, *[s["rows"] for s in shards]])
    missing = _missing(folder, shards, part)
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
                if part is not None:
                    with atomic_file(_told(folder, shards[mine])) as temporary:
                        temporary.write_text(done[1], "ascii")
            for place, checksum in filter(None, exchange(done)):
                shards[place]["sha256"] = checksum
            if rank() == 0 and part is None:
                write_manifest(folder, manifest)
    barrier()
    if part is not None:
        lacking = [s for s in shards if not s.get("sha256") and not _told(folder, s).is_file()]
        raise PartDone(part, folder, len(shards), len(lacking))
    return TargetBuffer.open(folder, made_by), todo
