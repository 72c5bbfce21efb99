"""Rows of Arrow tables within the budget: what is stored once may be meant a million times."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Int
from numpy import ndarray

from unstale.budget import RECORD, too_large
from unstale.data.formats.footer import column_chunks
from unstale.errors import InputError

_VALUES = 2**27  # in one row group of a column
_EXPANDED = 500  # times that a column may be larger than its compressed bytes, if it is large


def open_parquet(path: Path, *, as_stored: bool = True) -> pq.ParquetFile:
    """Open a parquet file; its texts stay as they are stored, in dictionaries, if asked for.

    Batches then end with each row group.
    """
    try:
        schema = pq.read_metadata(path).schema
        for chunk in column_chunks(path):
            many = chunk.uncompressed > RECORD
            many &= chunk.uncompressed > _EXPANDED * chunk.compressed
            if many or chunk.values > _VALUES:
                raise too_large(path, f"column {chunk.name!r} of a row group")
        texts = [schema.column(i) for i in range(len(schema))]
        texts = [text.path for text in texts if text.physical_type == "BYTE_ARRAY"]
        return pq.ParquetFile(path, read_dictionary=texts if as_stored else None)
    except (pa.ArrowException, ValueError, OSError) as error:  # a column's name may be no UTF-8
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a parquet file ({error})") from None


def parts(piece: pa.RecordBatch | pa.Table, name: str, first: int) -> Iterator[pa.RecordBatch]:
    """Yield a piece in parts of rows that together stay within the budget when they are read.

    Args:
        name: What the piece belongs to, for an error.
        first: The number of its first row.
    """
    for batch in piece.to_batches() if isinstance(piece, pa.Table) else [piece]:
        ends = np.cumsum(row_bytes(batch))
        start = 0
        while start < len(batch):
            used = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, used + RECORD, side="right"))
            if stop == start:
                raise too_large(f"{name}, row {first + start}", "the row")
            yield batch.slice(start, stop - start)
            start = stop
        first += len(batch)


def row_bytes(batch: pa.RecordBatch) -> Int[ndarray, " n"]:
    """Return about how many bytes each row takes when it is read."""
    total = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        total += _sizes(column)
    return total


def _sizes(array: pa.Array) -> Int[ndarray, " n"]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        known = np.append(_sizes(array.dictionary), 0)
        return known[array.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        ends = np.append(0, np.cumsum(_sizes(array.values)))[array.offsets.to_numpy()]
        return np.diff(ends) + 8
    if pa.types.is_struct(kind):
        none = np.zeros(len(array), np.int64)
        return sum((_sizes(array.field(i)) for i in range(kind.num_fields)), none)
    binary = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    if any(is_kind(kind) for is_kind in (*binary, pa.types.is_large_binary)):
        lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64) + 64
    return np.full(len(array), 32, np.int64)
