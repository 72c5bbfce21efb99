"""Is a migration resumed with what it began with? If rows came or went, what is kept of it?"""

from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer

from unstale.budget import read_object
from unstale.buffer import buffer
from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import RetrievalDataset, Texts
from unstale.errors import InputError
from unstale.files import atomic_file, atomic_folder, write_json
from unstale.migration.embed import CLOCK, PICKED, SHARD_ROWS, VECTORS, read_picked, write_picked
from unstale.migration.fitting import RE_EMBEDDED
from unstale.migration.fused import RELEVANT, relevant_stage
from unstale.migration.sample import Picked
from unstale.results import number

MADE_OF, IDS = "made_of.json", "ids.parquet"
_MOVES = {"targets", "qrels", "vectors", "ids"}  # with the rows
LEAST_LEFT = 0.5  # of the rows, or it is another collection


@final
class Changes(NamedTuple):
    """How many rows came and went since a migration began, or was last resumed."""

    added: int = 0
    deleted: int = 0


def check_same(
    folder: Path,
    now: dict[str, Any],
    ids: Texts | None,
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    *,
    whole: bool = True,
) -> Changes:
    """Refuse to resume what was begun with other vectors, texts, settings or another model.

    Rows may have come or gone where ids tell: what was embedded of those that stay is kept. An
    embedded text is known by its id, so a text that changes needs another.

    Args:
        folder: What was chosen and embedded.
        now: What the migration depends on.
        ids: The rows that there are now.
        dataset: Their texts, in that order.
        model: The new encoder.
        whole: Whether no other process embeds a part.
    """
    if not (folder / MADE_OF).is_file():
        _begin(folder, now, ids)
        return Changes()
    found = read_object(folder / MADE_OF)
    moved = ids is not None and found.get("ids") not in ("", now["ids"])
    for name, value in now.items():
        if found.get(name) != value and not (moved and name in _MOVES):
            was = f"was {found.get(name)}, is {value} now"
            raise InputError(f"cannot resume {folder}: {name} changed since ({was})")
    if not moved or ids is None:
        return Changes()
    then = Texts(pq.read_table(folder / IDS).column("id"))
    place = then.rows_in(ids)
    stay = int((place >= 0).sum())
    changes = Changes(len(ids) - stay, len(then) - stay)
    if stay < LEAST_LEFT * len(then) or not whole:
        rule = f"{changes.added} rows were added and {changes.deleted} deleted since"
        hint = "migrate again with another --output" if whole else "resume without --shard first"
        raise InputError(f"cannot resume {folder}: {rule}; {hint}")
    with atomic_folder(folder) as made:
        for choice in sorted(folder.glob(f"*/{PICKED}")):
            _keep(choice.parent, made, place, dataset, model)
        _begin(made, now, ids)
    return changes


def _begin(folder: Path, now: dict[str, Any], ids: Texts | None) -> None:
    """Write what a migration began with; the list of ids is streamed."""
    with atomic_file(folder / IDS) as temporary:
        column = Texts.of([]).column if ids is None else ids.column
        pq.write_table(pa.table({"id": column}), temporary)
    write_json(folder / MADE_OF, now)


def _keep(
    stage: Path,
    made: Path,
    place: Int[ndarray, " n"],
    dataset: RetrievalDataset,
    model: SentenceTransformer,
) -> None:
    """Copy of a stage the targets that stay, by the rows that they have now.

    Of one that was interrupted while it enlarged the sample, only what is embedded stays chosen.
    The choice of another stays whole, and is embedded anew.
    """
    picked = read_picked(stage / PICKED, len(place))
    vectors, have = _embedded(stage / VECTORS, len(picked.rows))
    if stage.name.startswith(RE_EMBEDDED):
        picked, have = Picked(picked.rows[have], picked.apart), have[have]
    rows = place[picked.rows]
    order = np.argsort(rows)
    order = order[rows[order] >= 0]
    if not len(order):
        return
    apart = place[picked.apart]
    rows, apart = rows[order], np.sort(apart[apart >= 0])
    name = relevant_stage(rows) if stage.name.startswith(RELEVANT) else stage.name
    write_picked(made / name / PICKED, Picked(rows, apart))
    if not have.all() or vectors is None:
        return
    fresh = vectors[torch.from_numpy(order)]
    shards: list[dict[str, Any]] = []
    for start in range(0, len(rows), SHARD_ROWS):
        file, piece = f"shard-{len(shards):05}.safetensors", fresh[start : start + SHARD_ROWS]
        checksum = buffer.write_shard(made / name / VECTORS / file, piece, "float32")
        shards.append({"file": file, "rows": len(piece), "sha256": checksum})
    made_by = fingerprint(model, dataset.with_targets(rows).targets)
    manifest = {"format": buffer.FORMAT, "fingerprint": made_by, "dim": fresh.shape[1]}
    buffer.write_manifest(made / name / VECTORS, manifest | {"dtype": "float32", "shards": shards})
    if (clock := stage / CLOCK).is_file():
        seconds = number(read_object(clock).get("seconds"))  # of all that were embedded
        stayed = seconds and seconds * len(rows) / len(have)
        write_json(made / name / CLOCK, {"seconds": stayed})


def _embedded(folder: Path, rows: int) -> tuple[buffer.TargetBuffer | None, ndarray]:
    """Open what is embedded of a stage, and say which of its rows that is."""
    if not (folder / buffer.MANIFEST).is_file():
        return None, np.zeros(rows, np.bool_)
    shards = buffer.read_manifest(folder)["shards"]
    have = np.concatenate([np.full(s["rows"], bool(s.get("sha256"))) for s in shards])
    some = [s for s in shards if s.get("sha256")]
    return (buffer.open_shards(folder, some) if some else None), have
