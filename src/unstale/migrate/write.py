"""Write corrected vectors in the format that the stale ones came in, piece by piece."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from unstale.buffer.buffer import FORMAT, write_manifest, write_shard
from unstale.files import atomic_file
from unstale.migrate.faiss_source import FaissSource, load_faiss
from unstale.migrate.parquet_source import ParquetSource
from unstale.migrate.source import Source
from unstale.migrate.vectors import BufferSource

SHARD_ROWS = 65_536  # of a buffer
_NAMES = {"float16": "F16", "float32": "F32", "float64": "F64"}
Chunks = Iterable[tuple[int, Float[ndarray, "n e"]]]


def write_vectors(
    source: Source, folder: Path, corrected: Chunks, dim: int, made_by: dict[str, Any]
) -> Path:
    """Write `folder/vectors.SUFFIX` (or `folder/vectors/`, a buffer), and return where.

    Args:
        source: Gives the format, the row count, the type of the numbers, and what travels along:
            other parquet columns, faiss ids and metric.
        folder: The output folder.
        corrected: `(first row, vectors)` over all rows, in order; consumed once.
        dim: Their width.
        made_by: What to record as the maker of a buffer.
    """
    return _WRITERS[source.format](source, folder, corrected, dim, made_by)


def _npy(
    source: Source, folder: Path, corrected: Chunks, dim: int, made_by: dict[str, Any]
) -> Path:
    path = folder / f"vectors{source.path.suffix}"
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        header = {"descr": source.dtype.str, "fortran_order": False, "shape": (source.rows, dim)}
        np.lib.format.write_array_header_1_0(file, header)
        for _, vectors in corrected:
            file.write(np.ascontiguousarray(vectors, source.dtype).tobytes())
    return path


def _safetensors(
    source: Source, folder: Path, corrected: Chunks, dim: int, made_by: dict[str, Any]
) -> Path:
    path = folder / "vectors.safetensors"
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        file.write(_header(getattr(source, "name", "vectors"), source.dtype, source.rows, dim))
        for _, vectors in corrected:
            file.write(np.ascontiguousarray(vectors, source.dtype).tobytes())
    return path


def _header(name: str, dtype: np.dtype[Any], rows: int, dim: int) -> bytes:
    """Write the header of a safetensors file with one tensor: its length, then JSON."""
    size = rows * dim * dtype.itemsize
    entry = {"dtype": _NAMES[dtype.name], "shape": [rows, dim], "data_offsets": [0, size]}
    text = json.dumps({name: entry}).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of eight
    return len(text).to_bytes(8, "little") + text


def _parquet(
    source: Source, folder: Path, corrected: Chunks, dim: int, made_by: dict[str, Any]
) -> Path:
    """Write the same columns, the vectors replaced."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert isinstance(source, ParquetSource)
    path = folder / "vectors.parquet"
    kind = pa.list_(pa.from_numpy_dtype(source.dtype), dim)
    place = source.file.schema_arrow.get_field_index(source.column)
    schema = source.file.schema_arrow.set(place, pa.field(source.column, kind)).remove_metadata()
    with atomic_file(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for (_, vectors), (_, batch, _) in zip(corrected, source.tables(), strict=True):
            flat = np.ascontiguousarray(vectors, source.dtype).reshape(-1)
            column = pa.FixedSizeListArray.from_arrays(pa.array(flat), dim)
            table = pa.Table.from_batches([batch]).set_column(place, schema.field(place), column)
            writer.write_table(table.cast(schema))
    return path


def _faiss(
    source: Source, folder: Path, corrected: Chunks, dim: int, made_by: dict[str, Any]
) -> Path:
    """Write a flat index of the same metric and ids: other structures were made for old vectors."""
    assert isinstance(source, FaissSource)
    faiss = load_faiss()
    index = faiss.IndexFlat(dim, source.metric)
    if source.ids is not None:
        index = faiss.IndexIDMap2(index)
    for start, vectors in corrected:
        vectors = np.ascontiguousarray(vectors, np.float32)
        if source.ids is None:
            index.add(vectors)
        else:
            index.add_with_ids(vectors, source.ids[start : start + len(vectors)])
    path = folder / f"vectors{source.path.suffix}"
    with atomic_file(path) as temporary:
        faiss.write_index(index, str(temporary))
    return path


def _buffer(
    source: Source, folder: Path, corrected: Chunks, dim: int, made_by: dict[str, Any]
) -> Path:
    """Write a buffer; its fingerprint says `corrected`, so it is not taken for a fresh one."""
    assert isinstance(source, BufferSource)
    path = folder / "vectors"
    shards: list[dict[str, Any]] = []
    for vectors in _regroup(corrected, SHARD_ROWS):
        name = f"shard-{len(shards):05}.safetensors"
        written = write_shard(path / name, torch.from_numpy(vectors), source.dtype.name)
        shards.append({"file": name, "rows": len(vectors), "sha256": written})
    manifest = {"format": FORMAT, "fingerprint": made_by, "dim": dim}
    write_manifest(path, manifest | {"dtype": source.dtype.name, "shards": shards})
    return path


def _regroup(chunks: Chunks, size: int) -> Iterator[Float[ndarray, "n e"]]:
    """Gather pieces into shards of exactly `size` rows, the last one shorter."""
    held: list[ndarray] = []
    count = 0
    for _, vectors in chunks:
        while len(vectors):
            part, vectors = vectors[: size - count], vectors[size - count :]
            held.append(part)
            count += len(part)
            if count == size:
                yield np.concatenate(held)
                held, count = [], 0
    if held:
        yield np.concatenate(held)


_WRITERS = {
    "npy": _npy,
    "safetensors": _safetensors,
    "parquet": _parquet,
    "faiss": _faiss,
    "buffer": _buffer,
}
