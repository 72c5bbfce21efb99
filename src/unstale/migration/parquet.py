"""Vectors in a column of a parquet file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float
from numpy import ndarray

from unstale.budget import RECORD, too_large
from unstale.data.formats.arrow import open_parquet, row_bytes
from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.migration.stale import CHUNK, NewIndex, StaleVectors

_WIDEST = 2**16
COLUMNS = ("vector", "embedding", "vectors", "embeddings")


@final
class ParquetVectors(StaleVectors):
    """A column of fixed-length lists of floats; other columns travel with the rows."""

    format = "parquet"

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, open_parquet(path, as_stored=False)
        schema = self.file.schema_arrow
        found = [c for c in COLUMNS if c in schema.names]
        if not found:
            wanted = " or ".join(COLUMNS)
            raise InputError(f"{path} has no column {wanted}; it has {', '.join(schema.names)}")
        if len(found) > 1 or schema.names.count(found[0]) > 1:
            named = " and ".join(name for name in schema.names if name in COLUMNS)
            raise InputError(f"{path} has the columns {named}: keep one of them")
        self.column = found[0]
        kind = schema.field(self.column).type
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        if not any(is_kind(kind) for is_kind in lists) or not pa.types.is_floating(kind.value_type):
            rule = f"must hold lists of floats, not {kind}"
            raise InputError(f"{path}: column {self.column!r} {rule}")
        self.dtype = np.dtype(kind.value_type.to_pandas_dtype())
        self.rows = self.file.metadata.num_rows
        first = next(self._batches(1, [self.column]), None)
        if first is None or not len(first):
            raise InputError(f"{path} has no rows")
        self.dim = int(first.column(0).value_lengths()[0].as_py() or 0)
        if not 0 < self.dim <= _WIDEST:
            what = f"a vector of width {self.dim}" if self.dim else "no vector"
            raise InputError(f"{path}, row 0: {what}; expected 1 to {_WIDEST}")

    def _batches(self, size: int, columns: list[str] | None) -> Iterator[Any]:
        """Yield record batches; a torn page is named."""
        try:
            for batch in self.file.iter_batches(size, columns=columns):
                batch.validate(full=True)
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.path} is damaged ({error})") from None

    def tables(
        self, size: int = CHUNK, columns: list[str] | None = None
    ) -> Iterator[tuple[int, Any, Float[ndarray, "n d"]]]:
        """Yield `(first row, record batch with some or all columns, float32 vectors)`."""
        start, size = 0, min(size, max(1, RECORD // (8 * self.dim)))
        for batch in self._batches(size, columns):
            if row_bytes(batch).sum() > 16 * RECORD:
                raise too_large(f"{self.path}, after row {start}", "a batch of rows", 16 * RECORD)
            column = batch.column(self.column)
            lengths = column.value_lengths().fill_null(-1).to_numpy()
            if (lengths != self.dim).any():
                row = start + int((lengths != self.dim).argmax())
                width = lengths[row - start]
                rule = f"a vector of width {width}, not {self.dim} as in row 0"
                raise InputError(f"{self.path}, row {row}: {rule if width >= 0 else 'no vector'}")
            flat = column.flatten().to_numpy(zero_copy_only=False)
            yield start, batch, np.array(flat, np.float32).reshape(-1, self.dim)
            start += len(batch)

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield the vectors batch by batch.

        All columns are read, for a batch of one column alone may end at another row than theirs,
        and `write` puts batches of both together.
        """
        for start, _, vectors in self.tables(size):
            yield start, vectors

    def write(self, folder: Path, new: NewIndex) -> Path:
        """Write the same columns, the vectors replaced."""
        path = folder / "vectors.parquet"
        kind = pa.list_(pa.from_numpy_dtype(self.dtype), new.dim)
        schema = self.file.schema_arrow
        place = schema.get_field_index(self.column)
        schema = schema.set(place, pa.field(self.column, kind)).remove_metadata()
        with atomic_file(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
            for (_, vectors), (_, batch, _) in zip(new.vectors, self.tables(), strict=True):
                flat = np.ascontiguousarray(vectors, self.dtype).reshape(-1)
                lists = pa.FixedSizeListArray.from_arrays(pa.array(flat), new.dim)
                table = pa.Table.from_batches([batch]).set_column(place, schema.field(place), lists)
                writer.write_table(table.cast(schema))
        return path
