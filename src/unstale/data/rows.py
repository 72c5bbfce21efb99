"""Texts that come one by one: each has an id, and is found again by the id or by the text."""

import mmap
import struct
import tempfile
from array import array
from hashlib import blake2b
from itertools import count
from typing import IO, Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import Texts
from unstale.data.lines import show
from unstale.errors import InputError
from unstale.files import cache_folder

_CHUNK = 8192  # texts to one Arrow chunk
_SPILL = 16 * 2**20  # bytes of texts kept in memory
_SCHEMA = pa.schema([("text", pa.large_string())])
_PAIR = struct.Struct("<QQ")
_SLACK = 256  # free slots after the last home, so that a walk need not wrap around


@final
class Rows:
    """Texts in the order they came, each with an id, found again by it or by the text's bytes.

    A text that came without an id gets one made up of the prefix and its row, which is no other's.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._rows = Index()
        self._hashes = array("q")
        self._texts, self._ids = TextWriter(), TextWriter()
        self._nameless = array("q")  # rows whose ids are made up
        # Of rows found by their texts, which come first. Their ids are compared at the end: a
        # second index would take 40 bytes a row, and these lines take 8.
        self._lines = array("q")
        self._file = ""

    def __len__(self) -> int:
        return len(self._hashes)

    def find(self, key: str | bytes) -> int | None:
        """Return the row of an id, or of a text's bytes."""
        return self._rows.find(key)

    def has(self, row: int, text: str) -> bool:
        """Tell whether a row has a text, by its hash."""
        return self._hashes[row] == hash(text)

    def add(self, text: str, id: str | None, where: str, key: str | bytes | None = None) -> int:
        """Add a text to be found by a key, by its id if none is given."""
        key = id if key is None else key
        if key is not None and (first := self._rows.put(key, len(self))) != len(self):
            raise InputError(f"{where}: duplicate id {id!r}, first seen as row {first}")
        return self._append(text, id)

    def add_by_text(self, text: str, id: str | None, where: str) -> int:
        """Add a text to be found by its bytes; of twins, the first is found."""
        self._file = where.rstrip("0123456789")
        self._lines.append(int(where[len(self._file) :] or len(self) + 1))
        self._rows.put(text.encode(), len(self))
        return self._append(text, id)

    def _append(self, text: str, id: str | None) -> int:
        row = len(self)
        if id is None:
            self._nameless.append(row)
        self._hashes.append(hash(text))
        self._texts.append(text)
        self._ids.append(f"{self._prefix}{row}" if id is None else id)
        return row

    def finish(self) -> tuple[Texts, Texts]:
        """Return ids and texts; refuse an id that two texts came with."""
        ids, named = self._ids.finish(), len(self) - len(self._nameless)
        if named and (self._lines or self._nameless):
            ids = self._distinct(ids)
        return ids, self._texts.finish()

    def _distinct(self, ids: Texts) -> Texts:
        """Make up other ids for those that were made up and are another text's."""
        hashes = np.fromiter(map(hash, ids), np.int64, len(self))
        ordered = np.sort(hashes)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if not len(repeated):
            return ids
        rows = np.flatnonzero(np.isin(hashes, repeated))
        nameless = np.isin(rows, np.frombuffer(self._nameless, np.int64))
        own: dict[str, int] = {}
        for row, id in zip(rows[~nameless].tolist(), ids.take(rows[~nameless]), strict=True):
            if (first := own.setdefault(id, row)) != row:
                again, before = (f"{self._file}{self._lines[r]}" for r in (row, first))
                raise InputError(f"{again}: duplicate id {show(id)}, first seen in {before}")
        renamed = {row: self._made_up(row, ordered) for row in rows[nameless].tolist()}
        if not renamed:
            return ids
        writer = TextWriter()
        for row, id in enumerate(ids):
            writer.append(renamed.get(row, id))
        return writer.finish()

    def _made_up(self, row: int, hashes: Int[ndarray, " n"]) -> str:
        """Return an id that no text has, given the sorted hashes of all."""
        ids = (f"{self._prefix}{row}-{number}" for number in count(2))
        place = hashes.searchsorted
        return next(id for id in ids if place(hash(id), "left") == place(hash(id), "right"))


@final
class Index:
    """Find rows by their keys: a hash table over flat arrays (open addressing, linear probing).

    It takes about 40 bytes a row, where a dict of strings takes 190. It keeps 128 bits of each key,
    so that two keys share a row only if they are equal.

    Example:
        >>> index = Index()
        >>> index.put("a", 7), index.put("a", 8)
        (7, 7)
        >>> index.find("b") is None
        True
    """

    def __init__(self) -> None:
        self._count = 0
        self._allocate(1024)

    def __len__(self) -> int:
        return self._count

    def find(self, key: str | bytes) -> int | None:
        """Return the row of a key, or None."""
        row = self._rows[self._slot(*_halves(key))]
        return row if row >= 0 else None

    def put(self, key: str | bytes, row: int) -> int:
        """Give a key a row unless it has one; return the row that it has."""
        high, low = _halves(key)
        slot = self._slot(high, low)
        if self._rows[slot] >= 0:
            return self._rows[slot]
        while slot == len(self._rows) - 1 or self._count > 0.6 * self._size:
            self._grow()
            slot = self._slot(high, low)
        self._high[slot], self._low[slot], self._rows[slot] = high, low, row
        self._count += 1
        return row

    def _slot(self, high: int, low: int) -> int:
        """Walk from the key's home to its slot, or to the free one where it would be."""
        slot = high >> self._shift
        while self._rows[slot] >= 0 and (self._low[slot] != low or self._high[slot] != high):
            slot += 1
        return slot

    def _allocate(self, size: int) -> None:
        self._size = size  # a power of 2
        self._shift = 64 - size.bit_length() + 1
        self._high, self._low = (array("Q", bytes(8 * (size + _SLACK))) for _ in range(2))
        self._rows = array("i", [-1]) * (size + _SLACK)

    def _grow(self) -> None:
        """Double the table. In the order of their keys, each goes to its home or right after."""
        old = [np.frombuffer(a, a.typecode) for a in (self._high, self._low, self._rows)]
        taken = np.flatnonzero(old[2] >= 0)
        taken = taken[np.argsort(old[0][taken], kind="stable")]
        self._allocate(2 * self._size)
        home = (old[0][taken] >> np.uint64(self._shift)).astype(np.int64)
        number = np.arange(len(taken))
        slot = np.maximum.accumulate(home - number) + number
        assert not len(slot) or slot[-1] < len(self._rows) - 1  # hashes do not crowd so
        for new, before in zip((self._high, self._low, self._rows), old, strict=True):
            np.frombuffer(new, new.typecode)[slot] = before[taken]


def _halves(key: str | bytes) -> tuple[int, int]:
    """Hash a key to two numbers of 64 bits; a text and equal bytes are different keys."""
    data, person = (key.encode(), b"text") if isinstance(key, str) else (key, b"")
    high, low = _PAIR.unpack(blake2b(data, digest_size=16, person=person).digest())
    return high, low


@final
class TextWriter:
    """Append texts, then read them as `Texts`.

    Beyond 16 MB they go to a file in the cache folder that has no name, so that nothing can leave
    it behind, and are memory-mapped: the system may drop their pages whenever it needs the memory.

    Example:
        >>> writer = TextWriter()
        >>> writer.append("a query")
        >>> writer.finish().take([0])
        ['a query']
    """

    def __init__(self) -> None:
        self._batch: list[str] = []
        self._chunks: list[pa.Array] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._stream: Any = None

    def append(self, text: str) -> None:
        """Add a text."""
        self._batch.append(text)
        if len(self._batch) == _CHUNK:
            self._flush()

    def finish(self) -> Texts:
        """Return everything appended."""
        self._flush()
        if self._file is None:
            return Texts(pa.chunked_array(self._chunks, pa.large_string()))
        self._stream.close()
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._file.close()  # the map holds on to it
        table = pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()  # copies nothing
        return Texts(table.column("text"))

    def _flush(self) -> None:
        self._chunks.append(pa.array(self._batch, pa.large_string()))
        self._batch = []
        self._bytes += self._chunks[-1].nbytes
        if self._file is None and self._bytes > _SPILL:
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it lives on
            self._stream = pa.ipc.new_stream(self._file, _SCHEMA)
        if self._file is not None:
            for chunk in self._chunks:
                self._stream.write_batch(pa.record_batch([chunk], _SCHEMA))
            self._chunks = []
