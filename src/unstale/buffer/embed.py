"""Embed a whole corpus once, to disk, so that a kill costs one shard and no more."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from sentence_transformers import SentenceTransformer
from torch import Tensor
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
from unstale.engine import Engine, ray_map
from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.written import note

Bar: TypeAlias = "tqdm[Any]"


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
        note([], gone=place)  # a run that lost what it wrote would be refused at its end


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
    engine: Engine = "local",
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
        engine: ray has the shards embedded by the workers of a Ray cluster.

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
    ends = np.cumsum([0, *[s["rows"] for s in shards]]).tolist()
    missing = _missing(folder, shards, part)
    todo = sum(shards[i]["rows"] for i in missing)
    own = missing[rank() :: world()]
    total, hidden = len(tokens), not progress
    with tqdm(
        total=total, initial=total - todo, desc="embedding", unit="target", disable=hidden
    ) as bar:
        places = [(ends[i], ends[i + 1]) for i in own]
        embedding = _by_ray if engine == "ray" else _here
        made = zip(own, embedding(model, tokens, places, tokens_per_batch, bar), strict=True)
        written = ((i, _write(folder, manifest, i, ends[i], vectors)) for i, vectors in made)
        _enter(folder, manifest, written, -(-len(missing) // world()), part)
    barrier()
    if part is not None:
        lacking = [s for s in shards if not s.get("sha256") and not _told(folder, s).is_file()]
        raise PartDone(part, folder, len(shards), len(lacking))
    return TargetBuffer.open(folder, made_by), todo


def _enter(
    folder: Path,
    manifest: dict[str, Any],
    written: Iterator[tuple[int, str]],
    turns: int,
    part: Part | None,
) -> None:
    """Write shards, one of each process a turn, and enter their checksums after each turn.

    So a kill costs the shards of one turn. A part leaves its checksums beside its shards.
    """
    shards = manifest["shards"]
    for _ in range(turns):
        done = next(written, None)
        if done is not None and part is not None:
            with atomic_file(_told(folder, shards[done[0]])) as temporary:
                temporary.write_text(done[1], "ascii")
        for shard, checksum in filter(None, exchange(done)):
            shards[shard]["sha256"] = checksum
        if rank() == 0 and part is None:
            write_manifest(folder, manifest)


Places = list[tuple[int, int]]  # from which row up to which


def _here(
    model: SentenceTransformer, tokens: TokenStore, places: Places, most: int | None, bar: Bar
) -> Iterator[Float[Tensor, "n d"]]:
    for start, stop in places:
        rows = np.arange(start, stop)
        yield embed_targets(model, tokens, rows, tokens_per_batch=most, progress=bar)


def _by_ray(
    model: SentenceTransformer, tokens: TokenStore, places: Places, most: int | None, bar: Bar
) -> Iterator[Float[Tensor, "n d"]]:
    pieces = (tokens.between(*place) for place in places)
    model = model if model.device.type == "cpu" else copy.deepcopy(model).cpu()
    for vectors in ray_map(_embed_piece, (model, most), pieces, gpu=True):
        bar.update(len(vectors))
        yield vectors


def _embed_piece(
    model: SentenceTransformer, most: int | None, tokens: TokenStore
) -> Float[Tensor, "n d"]:
    """Embed a shard in a worker, on its own device."""
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return embed_targets(model, tokens, np.arange(len(tokens)), tokens_per_batch=most)


def _write(
    folder: Path, manifest: dict[str, Any], shard: int, start: int, vectors: Float[Tensor, "n d"]
) -> str:
    finite = torch.isfinite(vectors).all(dim=1)
    if not finite.all():
        row = start + int(finite.int().argmin())
        raise InputError(f"the encoder gave NaN or infinity for the target in row {row}")
    return write_shard(folder / manifest["shards"][shard]["file"], vectors, manifest["dtype"])
