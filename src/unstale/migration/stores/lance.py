"""Vectors in a LanceDB table. Lance keeps every version of a table, so a swap can be undone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from unstale.data.dataset import Texts
from unstale.errors import InputError
from unstale.migration.stores.address import Address, only_one
from unstale.migration.stores.store import BATCH, client_of, shadow_name

_IDS = ("id", "_id")


@final
class LanceStore:
    """A table as it is when it is opened; rows are in the order in which Lance scans them."""

    metric = "cosine"  # a table has none of its own: each query names it

    def __init__(self, address: Address) -> None:
        lancedb = client_of("lancedb", address)
        if "://" not in address.place and not Path(address.place).is_dir():
            raise InputError(f"{address}: no such folder")
        self.address, self.shadow = address, shadow_name(address, address.name)
        self.database = lancedb.connect(address.place)
        if address.name not in self._tables():
            there = ", ".join(self._tables()) or "none"
            raise InputError(f"{address}: no such table; there are {there}")
        self.table = self.database.open_table(address.name)
        schema = self.table.schema
        lists = [f.name for f in schema if pa.types.is_fixed_size_list(f.type)]
        self.vector = only_one(lists, address.vector, "vector", address)
        self.dim = int(schema.field(self.vector).type.list_size)
        known = [n for n in schema.names if n == address.id or (not address.id and n in _IDS)]
        self.id = only_one(known, address.id, "id", address)
        self.read_rows()

    def read_rows(self) -> None:
        """Read the ids of the table as it is now."""
        self.table.checkout_latest()
        self.version = int(self.table.version)
        self.table.checkout(self.version)  # rows that others add meanwhile do not move ours
        self.rows, self.ids = int(self.table.count_rows()), self._ids(self.table)

    def _tables(self) -> list[str]:
        return [str(name) for name in self.database.list_tables().tables]

    def scan(self, first: int, count: int) -> Float[ndarray, "count d"]:
        """Return the vectors of consecutive rows."""
        found = self.table.search().offset(first).limit(count)
        return self._vectors(found.select([self.vector]).to_arrow())

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows."""
        order = np.argsort(rows)
        found = self.table.take_offsets(np.sort(rows).tolist()).select([self.vector]).to_arrow()
        vectors = np.empty((len(rows), self.dim), np.float32)
        vectors[order] = self._vectors(found)
        return vectors

    def _vectors(self, table: pa.Table) -> Float[ndarray, "n d"]:
        column = table.column(self.vector).combine_chunks()
        if column.null_count:
            raise InputError(f"{self.address}: {column.null_count} rows have no {self.vector}")
        flat = column.flatten().to_numpy(zero_copy_only=False)
        return np.array(flat, np.float32).reshape(-1, self.dim)

    def written(self) -> int | None:
        """Count the rows of the shadow."""
        if self.shadow not in self._tables():
            return None
        return int(self.database.open_table(self.shadow).count_rows())

    def write(
        self, rows: Int[ndarray, " n"], vectors: Float[ndarray, "n e"], fresh: Bool[ndarray, " n"]
    ) -> None:
        """Append rows, in ascending order, with all their other columns, in one commit."""
        if rows[-1] - rows[0] == len(rows) - 1:
            old = self.table.search().offset(int(rows[0])).limit(len(rows)).to_arrow()
        else:
            old = self.table.take_offsets(rows.tolist()).to_arrow()
        place = old.schema.get_field_index(self.vector)
        flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
        lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        new = old.set_column(place, pa.field(self.vector, lists.type), lists)
        if "is_fresh" in new.schema.names:
            new = new.drop_columns(["is_fresh"])
        new = new.append_column("is_fresh", pa.array(fresh))
        if self.shadow in self._tables():
            self.database.open_table(self.shadow).add(new)
        else:
            self.database.create_table(self.shadow, new)

    def discard(self) -> None:
        """Delete the shadow."""
        self.database.drop_table(self.shadow)

    def drop(self, ids: Sequence[str]) -> None:
        """Delete rows of the shadow."""
        quoted = ", ".join("'" + id.replace("'", "''") + "'" for id in ids)
        gone = f"CAST({self.id} AS STRING) IN ({quoted})"
        self.database.open_table(self.shadow).delete(gone)

    def shadow_ids(self) -> Texts:
        """Return the ids of the shadow's rows."""
        return self._ids(self.database.open_table(self.shadow))

    def _ids(self, table: Any) -> Texts:  # noqa: ANN401 - the client's own type
        ids = table.search().select([self.id]).to_arrow()
        return Texts(ids.column(self.id).cast(pa.string()))

    def check_swap(self) -> None:
        """Any table can be swapped."""

    def swap(self) -> str:
        """Make the shadow's rows the next version of the table, in one commit."""
        source = self.database.open_table(self.shadow)
        reader = source.search().to_batches(BATCH)
        name = self.address.name
        self.database.create_table(name, reader, mode="overwrite")
        undo = f"version {self.version} is kept: table.restore({self.version}) brings it back"
        return f"the table {name} now has the rows of {self.shadow}; {undo}"
