"""Embed chosen targets with the new encoder, in stages, so that a killed migration can resume."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.budget import read_object
from unstale.buffer.embed import Part, embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import RetrievalDataset
from unstale.distributed import first_alone, on_first, rank
from unstale.encoders.tokenise import target_tokens
from unstale.engine import Engine
from unstale.errors import InputError
from unstale.files import atomic_file, write_json
from unstale.migration.sample import Picked
from unstale.results import number

SHARD_ROWS = 256  # what a kill can cost
# In the folder of a stage: its list of targets, what they are embedded into, and the seconds.
PICKED, VECTORS, CLOCK = "picked.safetensors", "vectors", "clock.json"


class EmbeddedTargets(NamedTuple):
    """A choice of targets, their fresh vectors, and the seconds that those took."""

    picked: Picked
    fresh: Float[Tensor, "n e"]
    seconds: float


EmbedPicked = Callable[[str, Callable[[], Picked]], EmbeddedTargets]


@final
@dataclass(frozen=True)
class Stages:
    """Embed what a function picks, or what it picked before the run was interrupted.

    A choice that depends on a fitted network need not come out the same twice, so it is kept:
    `FOLDER/STAGE/picked.safetensors`, beside the vectors.
    """

    model: SentenceTransformer
    dataset: RetrievalDataset
    folder: Path
    part: Part | None = None  # that this process embeds, beside others
    engine: Engine = "local"

    def __call__(self, stage: str, pick: Callable[[], Picked]) -> EmbeddedTargets:
        """Embed a stage, or what is left of it."""
        folder = self.folder / stage
        choice = folder / PICKED
        if on_first(lambda: not choice.is_file()):
            chosen = pick()
            on_first(lambda: write_picked(choice, chosen))
        picked = read_picked(choice, len(self.dataset.targets))
        some = self.dataset.with_targets(picked.rows)
        with first_alone():
            tokens = target_tokens(self.model, some, progress=False)
        began = time.perf_counter()
        made_by, into = fingerprint(self.model, some.targets), folder / VECTORS
        buffer, now = embed_corpus(
            self.model, tokens, into, made_by, shard_rows=SHARD_ROWS, progress=rank() == 0,
            part=self.part, engine=self.engine,
        )  # fmt: skip
        clock = folder / CLOCK
        if rank() == 0 and (now or not clock.is_file()):
            # What earlier sessions embedded is counted at the rate of this one.
            each = (time.perf_counter() - began) / max(1, now)
            write_json(clock, {"seconds": each * len(picked.rows)})
        fresh = buffer[torch.arange(len(buffer))]
        seconds = on_first(lambda: number(read_object(clock).get("seconds")))
        if seconds is None:
            raise InputError(f"{clock} does not say how many seconds; delete it, and resume")
        return EmbeddedTargets(picked, fresh, seconds)


def write_picked(path: Path, picked: Picked) -> None:
    """Write which targets a stage picked."""
    with atomic_file(path) as temporary:
        save_file(picked._asdict(), temporary)


def read_picked(path: Path, rows: int) -> Picked:
    """Read which targets a stage picked; refuse what cannot be rows of these targets."""
    try:
        stored = load_file(path)
        picked = Picked(stored["rows"], stored["apart"])
    except (SafetensorError, KeyError) as error:
        raise InputError(f"{path} is damaged ({error}); delete its folder, and resume") from None
    for column in picked:
        good = column.ndim == 1 and column.dtype.kind == "i"
        if not good or (len(column) and not 0 <= column.min() <= column.max() < rows):
            raise InputError(f"{path} does not name rows of {rows} targets; delete its folder")
    return picked
