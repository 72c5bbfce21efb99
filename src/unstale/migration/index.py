"""What is the new index made of? Corrected vectors, and fresh ones where they are known."""

import copy
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor, nn
from tqdm import tqdm

from unstale.buffer.stored import Stored
from unstale.data.dataset import Texts
from unstale.distributed import exchange, gather, on_first, rank, world
from unstale.encoders.load import hash_weights
from unstale.engine import Engine, ray_map
from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.integrity import digest
from unstale.migration.joined import JoinedQueries
from unstale.migration.stale import NewIndex, StaleVectors
from unstale.settings import Precision

Chunks = Iterable[tuple[int, Float[Tensor, "_ e"]]]  # (first row, vectors), in order


class Known(NamedTuple):
    """The rows whose fresh vectors the index holds."""

    rows: Int[Tensor, " n"]
    fresh: Float[Tensor, "n e"]


@final
class Joined(nn.Module):
    """A corrector that keeps the old vector beside the corrected one."""

    def __init__(self, corrector: nn.Module, join: JoinedQueries) -> None:
        super().__init__()
        self.corrector, self.lengths = corrector, join.parts()

    def forward(self, stale: Float[Tensor, "n d"]) -> Float[Tensor, "n w"]:
        """Correct, and join."""
        return self.join(stale, self.corrector(stale))

    def join(self, stale: Float[Tensor, "n d"], new: Float[Tensor, "n e"]) -> Float[Tensor, "n w"]:
        """Put old and new vectors end to end."""
        return torch.cat([self.lengths[0] * stale, self.lengths[1] * new], dim=1)


def index_chunks(
    source: StaleVectors,
    corrector: nn.Module,
    known: Known,
    why: str = "correcting",
    device: torch.device | None = None,
    first: int = 0,
    engine: Engine = "local",
) -> Iterator[tuple[int, Float[Tensor, "m e"]]]:
    """Yield this process's pieces of the new index, `(first row, vectors)`, on a device.

    Every process reads all of the old vectors and corrects each so many-th piece, or has Ray's
    workers correct them. Memory is one piece and its hidden layer, whatever the number of rows. A
    bar says why, if it takes more than a second. Pieces that end before the row `first` are left
    out.
    """
    known = Known(known.rows.to(device), known.fresh.to(device))
    total, hidden = source.rows - first, rank() > 0
    with tqdm(total=total, desc=why, unit="target", delay=1, leave=False, disable=hidden) as bar:
        pieces = islice(source.chunks_from(first), rank(), None, world())
        if engine == "ray":
            found = ray_map(_correct, (copy.deepcopy(corrector).cpu(),), pieces, gpu=False)
        else:
            network = copy.deepcopy(corrector).to(device)
            found = (_correct(network, piece) for piece in pieces)
        for start, corrected in found:
            bar.update(len(corrected) * world())
            corrected = corrected.to(device)
            here = ((known.rows >= start) & (known.rows < start + len(corrected))).nonzero()[:, 0]
            corrected[known.rows[here] - start] = known.fresh[here]
            if source.dtype.name in ("float16", "int8"):  # as it will be written
                stored = Stored.of(corrected, cast("Precision", source.dtype.name))
                corrected = stored.between(0, len(corrected))
            if not (finite := torch.isfinite(corrected).all(dim=1)).all():
                row = start + int(finite.int().argmin())
                raise InputError(f"the corrected vector of row {row} has NaN or infinity")
            yield start, corrected


def _correct(
    network: nn.Module, piece: tuple[int, Float[ndarray, "m d"]]
) -> tuple[int, Float[Tensor, "m e"]]:
    """Correct one piece, here or in a worker, on the device of the network."""
    start, stale = piece
    device = next((p.device for p in network.parameters()), None)
    with torch.no_grad():
        return start, network(torch.tensor(stale, device=device))


def whole_index(pieces: Chunks, dim: int) -> Iterator[tuple[int, Float[Tensor, "m e"]]]:
    """Bring the pieces of all processes together, in order, in the main memory of each.

    Pieces may have any number of rows: shards and row groups end where they end.
    """
    own, more = iter(pieces), True
    while more:
        start, vectors = next(own, (-1, torch.zeros(0, dim)))
        turn = exchange((start, len(vectors)))
        parts = gather(vectors.cpu()).split([count for _, count in turn])
        for (first, count), part in zip(turn, parts, strict=True):
            if count:
                yield first, part
        more = all(count for _, count in turn)


def write_index(
    source: StaleVectors,
    corrector: nn.Module,
    known: Known,
    folder: Path,
    made_by: dict[str, Any],
    device: torch.device | None = None,
    engine: Engine = "local",
) -> tuple[Path, float]:
    """Correct everything from disk to disk; return where, and the seconds it took.

    Of several processes the first writes.
    """
    began = time.perf_counter()
    # So that it is not taken for fresh:
    made_by = made_by | {"corrected": hash_weights(corrector.state_dict())}
    names, maker = [str(row) for row in known.rows.tolist()], made_by
    if source.ids is not None:  # rows may come and go
        names = source.ids.take(known.rows.numpy())
        maker = {k: v for k, v in made_by.items() if k not in ("texts", "targets")}
    identity = digest([maker, names, hash_weights({"fresh": known.fresh})])
    first, dim = on_first(lambda: source.resume_at(folder, identity)), known.fresh.shape[1]
    pieces = index_chunks(source, corrector, known, device=device, first=first, engine=engine)
    arrays = ((start, vectors.numpy()) for start, vectors in whole_index(pieces, dim))
    if rank() > 0:  # it does its part
        deque(arrays, maxlen=0)
    fresh = _is_fresh(known.rows, source.rows)
    path = on_first(lambda: source.write(folder, NewIndex(arrays, dim, fresh, made_by)))
    return path, time.perf_counter() - began


def write_rows(folder: Path, ids: Texts, known: Int[Tensor, " n"]) -> None:
    """Write `rows.parquet`: for each row of the new index its id, and whether it is fresh."""
    columns = {"id": ids.column, "is_fresh": _is_fresh(known, len(ids))}
    with atomic_file(folder / "rows.parquet") as temporary:
        pq.write_table(pa.table(columns), temporary)


def _is_fresh(known: Int[Tensor, " n"], rows: int) -> Bool[ndarray, " rows"]:
    fresh = np.zeros(rows, np.bool_)
    fresh[known.numpy()] = True
    return fresh
