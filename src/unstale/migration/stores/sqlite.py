"""Vectors in a vec0 table of sqlite-vec."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from unstale.data.dataset import Texts
from unstale.errors import InputError
from unstale.migration.stores.address import Address, only_one
from unstale.migration.stores.store import client_of, shadow_name

_VECTOR = re.compile(
    r"^([\"\w]+)\s+(float|float32|f32)\s*\[(\d+)\](.*)$", re.IGNORECASE | re.DOTALL
)
_METRIC = re.compile(r"distance_metric\s*=\s*(\w+)", re.IGNORECASE)
_METRICS = {"l2": "L2 distance", "cosine": "cosine"}


@final
class SqliteStore:
    """A table; rows are in the order in which sqlite-vec scans them."""

    def __init__(self, address: Address) -> None:
        extension = client_of("sqlite_vec", address)
        if not Path(address.place).is_file():
            raise InputError(f"{address}: no such file")
        self.address, self.shadow = address, shadow_name(address, address.name)
        self.old = f"{address.name}-old"
        self.base = _connect(address)
        self.base.enable_load_extension(True)
        extension.load(self.base)
        self.base.enable_load_extension(False)
        self.columns = _declared(self._made_by(address.name))
        found = {m[1].strip('"'): m for m in map(_VECTOR.match, self.columns) if m}
        self.vector = only_one(list(found), address.vector, "vector", address)
        self.dim = int(found[self.vector][3])
        metric = _METRIC.search(found[self.vector][4])
        name = metric[1].lower() if metric else "l2"
        self.metric = _METRICS.get(name, name)
        about = list(self.base.execute("SELECT * FROM pragma_table_xinfo(?)", [address.name]))
        self.fields = [str(c[1]) for c in about if not c[6]]  # all but the hidden ones
        self.key = next((str(c[1]) for c in about if c[5]), "rowid")
        self.id = only_one([*self.fields, "rowid"], address.id or self.key, "id", address)
        self.read_rows()

    def read_rows(self) -> None:
        """Read the ids of all rows."""
        pairs = self._select(self.address.name, [self.key, self.id])
        self.keys, names = [p[0] for p in pairs], [str(p[1]) for p in pairs]
        self.ids, self.rows = Texts.of(names), len(names)

    def _made_by(self, table: str) -> str:
        """Return the statement that made a table; "" if there is none."""
        asked = "SELECT sql FROM sqlite_master WHERE name = ? AND sql LIKE '%using vec0%'"
        if found := self.base.execute(asked, [table]).fetchone():
            return str(found[0])
        if table == self.shadow:
            return ""
        tables = self.base.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%using vec0%'")
        there = ", ".join(str(name) for (name,) in tables) or "none"
        raise InputError(f"{self.address}: no such vec0 table; there are {there}")

    def _select(self, table: str, fields: Sequence[str]) -> list[tuple[Any, ...]]:
        return list(self.base.execute(f"SELECT {_quoted(fields)} FROM {_quoted([table])}"))  # noqa: S608 - quoted

    def _rows(self, keys: Sequence[Any], fields: Sequence[str]) -> list[tuple[Any, ...]]:
        """Look rows up one by one: for a list of keys, vec0 reads the whole table."""
        asked = f"SELECT {_quoted(fields)} FROM {_quoted([self.address.name])}"  # noqa: S608 - quoted
        asked += f" WHERE {_quoted([self.key])} = ?"
        found = [self.base.execute(asked, [key]).fetchone() for key in keys]
        gone = [key for key, row in zip(keys, found, strict=True) if row is None]
        if gone:
            rule = "were deleted while they were read; run the command again with --resume"
            raise InputError(f"{self.address}: {len(gone)} rows, such as {gone[0]}, {rule}")
        return found

    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows."""
        found = self._rows([self.keys[row] for row in rows.tolist()], [self.vector])
        flat = np.frombuffer(b"".join(row[0] for row in found), np.float32)
        return flat.reshape(len(rows), self.dim).copy()

    def scan(self, first: int, count: int) -> Float[ndarray, "count d"]:
        """Return the vectors of consecutive rows."""
        return self.take(np.arange(first, first + count))

    def written(self) -> int | None:
        """Count the rows of the shadow."""
        if not self._made_by(self.shadow):
            return None
        count = f"SELECT count(*) FROM {_quoted([self.shadow])}"  # noqa: S608 - quoted
        return int(self.base.execute(count).fetchone()[0])

    def write(
        self, rows: Int[ndarray, " n"], vectors: Float[ndarray, "n e"], fresh: Bool[ndarray, " n"]
    ) -> None:
        """Insert rows with all their other columns, in one transaction."""
        with self._transaction():
            if not self._made_by(self.shadow):
                self.base.execute(self._declare(self.shadow, vectors.shape[1]))
            others = [f for f in self.fields if f not in (self.vector, self.key, "is_fresh")]
            fields = [self.key, *others]
            old = self._rows([self.keys[row] for row in rows.tolist()], fields)
            new = zip(old, vectors.astype(np.float32), fresh.tolist(), strict=True)
            self.base.executemany(
                _insert(self.shadow, [*fields, self.vector, "is_fresh"]),
                ((*row, vector.tobytes(), is_fresh) for row, vector, is_fresh in new),
            )

    def _declare(self, table: str, dim: int) -> str:
        """Return the statement that makes a table as ours is, but for the width of the vector."""
        columns = [c for c in self.columns if not c.strip('+" ').startswith("is_fresh")]
        for place, column in enumerate(columns):
            found = _VECTOR.match(column)
            if found and found[1].strip('"') == self.vector:
                columns[place] = f"{found[1]} float[{dim}]{found[4]}"
        declared = ", ".join([*columns, "is_fresh boolean"])
        return f"CREATE VIRTUAL TABLE {_quoted([table])} USING vec0({declared})"

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.base.execute("ROLLBACK")
            raise
        self.base.execute("COMMIT")

    def discard(self) -> None:
        """Delete the shadow."""
        self.base.execute(f"DROP TABLE {_quoted([self.shadow])}")

    def drop(self, ids: Sequence[str]) -> None:
        """Delete rows of the shadow."""
        gone = f"DELETE FROM {_quoted([self.shadow])} WHERE CAST({_quoted([self.id])} AS TEXT) = ?"  # noqa: S608 - quoted
        with self._transaction():
            self.base.executemany(gone, [[id] for id in ids])

    def shadow_ids(self) -> Texts:
        """Return the ids of the shadow's rows."""
        return Texts.of([str(row[0]) for row in self._select(self.shadow, [self.id])])

    def check_swap(self) -> None:
        """Refuse if the table of an earlier swap is in the way."""
        if self.base.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [self.old]).fetchone():
            rule = "is kept from an earlier swap; drop it first"
            raise InputError(f"--swap: {self.address} is to be renamed, but {self.old} {rule}")

    def swap(self) -> str:
        """Copy both tables under their new names, in one transaction: vec0 cannot rename one."""
        self.check_swap()
        name = self.address.name
        with self._transaction():
            for source, copy in ((name, self.old), (self.shadow, name)):
                columns = _declared(self._made_by(source))
                self.base.execute(
                    f"CREATE VIRTUAL TABLE {_quoted([copy])} USING vec0({', '.join(columns)})"
                )
                new = [f for f in self.fields if f != "is_fresh"]
                fields = [*dict.fromkeys([self.key, *(new if source != name else self.fields)])]
                fields += ["is_fresh"] if source != name else []
                asked = f"SELECT {_quoted(fields)} FROM {_quoted([source])}"  # noqa: S608 - quoted
                self.base.execute(_insert(copy, fields).partition(" VALUES")[0] + f" {asked}")
                self.base.execute(f"DROP TABLE {_quoted([source])}")
        return f"the table {name} now has the rows of {self.shadow}; {self.old} is kept"


def _connect(address: Address) -> Any:  # noqa: ANN401 - of sqlite3, or of pysqlite3
    """Open a database; some builds of Python cannot load an extension into theirs."""
    module: Any = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        module = client_of("pysqlite3", address)
    return module.connect(address.place, isolation_level=None)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def _insert(table: str, fields: Sequence[str]) -> str:
    marks = ", ".join("?" * len(fields))
    return f"INSERT INTO {_quoted([table])} ({_quoted(fields)}) VALUES ({marks})"  # noqa: S608 - quoted


def _declared(sql: str) -> list[str]:
    """Return the columns in a statement that made a vec0 table, as they were written.

    Example:
        >>> _declared("CREATE VIRTUAL TABLE d USING vec0(id text primary key, v float[3])")
        ['id text primary key', 'v float[3]']
    """
    inside = sql[sql.index("(") + 1 : sql.rindex(")")]
    return [column.strip() for column in inside.split(",") if column.strip()]
