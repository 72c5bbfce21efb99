"""Vectors in a PostgreSQL table with pgvector; new ones are written to a second column."""

import weakref
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from unstale.data.dataset import Texts
from unstale.errors import InputError
from unstale.migration.stores.address import Address, only_one
from unstale.migration.stores.store import client_of

_NUMBERS = {"vector": ">f4", "halfvec": ">f2"}  # as the server sends them, after four bytes
_METRICS = {"cosine": "cosine", "ip": "inner product", "l2": "L2 distance"}
_COLUMNS = """
    SELECT attname, typname, atttypmod, format_type(atttypid, NULL) FROM pg_attribute
    JOIN pg_type ON atttypid = pg_type.oid
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""
_KEYS = """
    SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
    WHERE indrelid = %s::regclass AND indisprimary
"""
_INDEXES = """
    SELECT amname, opcname, reloptions FROM pg_index
    JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
    JOIN pg_opclass ON pg_opclass.oid = indclass[0]
    JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
    WHERE indrelid = %s::regclass AND attname = %s AND indnatts = 1 ORDER BY indexrelid
"""


@final
class PostgresStore:
    """A table with a vector column; rows are in the order of their ids.

    Rows without a vector are left out.
    """

    def __init__(self, address: Address) -> None:
        self.pg = client_of("psycopg", address)
        self.sql: Any = self.pg.sql
        self.address = address
        self.table = self.sql.Identifier(*address.name.split("."))
        self.quoted = self.table.as_string()
        try:
            self.base = self.pg.connect(address.place, autocommit=True)
            weakref.finalize(self, self.base.close)
            columns = list(self.base.execute(_COLUMNS, [self.quoted]))
        except self.pg.Error as error:  # no server, no such table
            said = " ".join(str(error).split())[:300]
            raise InputError(f"{address}: {said}") from None
        kinds = {str(name): (str(kind), int(size)) for name, kind, size, _ in columns}
        vectors = [name for name, (kind, _) in kinds.items() if kind in _NUMBERS]
        if address.vector is None:  # those that a migration made or kept are not meant
            ours = {f"{name}{end}" for name in vectors for end in ("_new", "_old")}
            vectors = [name for name in vectors if name not in ours]
        self.vector = only_one(vectors, address.vector, "vector", address)
        self.kind, self.dim = kinds[self.vector]
        keys = [str(row[0]) for row in self.base.execute(_KEYS, [self.quoted])]
        self.id = only_one([address.id] if address.id in kinds else keys, address.id, "id", address)
        self.of_id = next(str(column[3]) for column in columns if column[0] == self.id)
        self.new, self.old = f"{self.vector}_new", f"{self.vector}_old"
        self.shadow = f"{address.name}?vector={self.new}"
        indexes = [str(row[1]) for row in self._indexes(self.vector)]
        self.metric = next((m for k, m in _METRICS.items() for i in indexes if k in i), "cosine")
        self.read_rows()
        if self.dim < 0 and self.rows:  # a column of any width
            self.dim = self._vectors([self.keys[0]]).shape[1]

    def read_rows(self) -> None:
        """Read the ids of the rows that have an old vector now."""
        self.keys = self._keys(self.vector)
        self.ids, self.rows = Texts.of([str(key) for key in self.keys]), len(self.keys)

    def _run(self, text: str, values: Sequence[Any] = (), **names: str) -> Any:  # noqa: ANN401
        """Run a statement, with its names filled in, and the numbers as the server has them."""
        quoted = {key: self.sql.Identifier(name) for key, name in names.items()}
        asked = self.sql.SQL(text).format(
            table=self.table, id=self.sql.Identifier(self.id), **quoted
        )
        return self.base.execute(asked, values, binary=True)

    def _keys(self, column: str) -> list[Any]:
        """Return the ids of all rows that have a vector in a column."""
        asked = "SELECT {id} FROM {table} WHERE {column} IS NOT NULL ORDER BY {id}"
        return [row[0] for row in self._run(asked, column=column)]

    def _indexes(self, column: str) -> list[tuple[Any, ...]]:
        return list(self.base.execute(_INDEXES, [self.quoted, column]))

    def _has(self, column: str) -> bool:
        return any(row[0] == column for row in self.base.execute(_COLUMNS, [self.quoted]))

    def _vectors(self, keys: list[Any]) -> Float[ndarray, "n d"]:
        asked = "SELECT {id}, {column} FROM {table} WHERE {id} = ANY(%s) AND {column} IS NOT NULL"
        found = dict(self._run(asked, [keys], column=self.vector))
        gone = [key for key in keys if key not in found]
        if gone:
            rule = "were deleted while they were read; run the command again with --resume"
            raise InputError(f"{self.address}: {len(gone)} rows, such as {gone[0]}, {rule}")
        raw = [np.frombuffer(found[key], _NUMBERS[self.kind], offset=4) for key in keys]
        return np.array(raw, np.float32)

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows."""
        return self._vectors([self.keys[row] for row in rows.tolist()]).reshape(-1, self.dim)

    def scan(self, first: int, count: int) -> Float[ndarray, "count d"]:
        """Return the vectors of consecutive rows."""
        return self.take(np.arange(first, first + count))

    def written(self) -> int | None:
        """Count the new vectors."""
        if not self._has(self.new):
            return None
        return int(self._run("SELECT count({new}) FROM {table}", new=self.new).fetchone()[0])

    def write(
        self, rows: Int[ndarray, " n"], vectors: Float[ndarray, "n e"], fresh: Bool[ndarray, " n"]
    ) -> None:
        """Fill the new column of rows, in one transaction."""
        if not self._has(self.new):
            kind = f"{self.kind}({vectors.shape[1]})"
            added = "ADD COLUMN {new} " + kind + ", ADD COLUMN IF NOT EXISTS is_fresh boolean"
            self._run("ALTER TABLE {table} " + added, new=self.new)
        numbers = vectors.astype(_NUMBERS[self.kind])
        head = vectors.shape[1].to_bytes(2, "big") + bytes(2)
        keys = [self.keys[row] for row in rows.tolist()]
        place = self.pg.types.numeric.Int4
        with self.base.transaction(), self.base.cursor() as cursor:
            made = f"(n int, v {self.kind}, f boolean) ON COMMIT DROP"
            cursor.execute(f"CREATE TEMPORARY TABLE unstale_rows {made}")
            with cursor.copy("COPY unstale_rows FROM STDIN (FORMAT BINARY)") as copy:
                for n, (vector, is_fresh) in enumerate(zip(numbers, fresh.tolist(), strict=True)):
                    copy.write_row((place(n + 1), head + vector.tobytes(), is_fresh))
            self._run(
                "UPDATE {table} SET {new} = v, is_fresh = f FROM unstale_rows "  # noqa: S608 - the server's
                f"JOIN unnest(%s::{self.of_id}[]) WITH ORDINALITY AS k(key, place) ON n = place "
                "WHERE {id} = key",
                [keys],
                new=self.new,
            )

    def discard(self) -> None:
        """Drop the new column."""
        self._run("ALTER TABLE {table} DROP COLUMN {new}", new=self.new)

    def drop(self, ids: Sequence[str]) -> None:
        """Nothing is left of a row that was deleted; one without an old vector loses the new."""
        gone = "UPDATE {table} SET {new} = NULL, is_fresh = NULL WHERE {id}::text = ANY(%s)"
        self._run(gone, [list(ids)], new=self.new)

    def shadow_ids(self) -> Texts:
        """Return the ids of the rows that have a new vector; one deleted meanwhile has none."""
        return Texts.of([str(key) for key in self._keys(self.new)])

    def check_swap(self) -> None:
        """Refuse if the column of an earlier swap is in the way."""
        if self._has(self.old):
            rule = f"is kept from an earlier swap; drop it first: ALTER TABLE ... DROP {self.old}"
            raise InputError(f"--swap: the column {self.old} of {self.address} {rule}")

    def swap(self) -> str:
        """Index the new column as the old one is, and exchange their names in one transaction."""
        self.check_swap()
        if not self._indexes(self.new):
            for way, operators, options in self._indexes(self.vector):
                given = f" WITH ({', '.join(options)})" if options else ""
                made = f"CREATE INDEX ON {{table}} USING {way} ({{new}} {operators}){given}"
                self._run(made, new=self.new)
        with self.base.transaction():
            rename = "ALTER TABLE {table} RENAME COLUMN {before} TO {after}"
            self._run(rename, before=self.vector, after=self.old)
            self._run(rename, before=self.new, after=self.vector)
        served = f"the column {self.vector} of {self.address.name} now has the new vectors"
        return f"{served}; the old ones are kept as {self.old}"
