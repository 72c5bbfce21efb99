"""Texts that come one by one: each has an id, and is found again by the id or by the text."""

import mmap
import struct
import tempfile
from array import array
from hashlib import blake2b
from itertools import count
from typing import IO, Any, final

import pyarrow as pa

from unstale.data.dataset import Texts
from unstale.data.lines import show
from unstale.errors import InputError
from unstale.files import cache_folder

_CHUNK = 8192  # texts to one Arrow chunk
_SPILL = 16 * 2**20  # bytes of texts kept in memory
_DIGEST = struct.Struct("<QI")
_SCHEMA = pa.schema([("text", pa.large_string())])


@final
class Rows:
    """Texts in the order they came, each with an id, found again by it or by the text's bytes.

    A text that came without an id gets one made up of the prefix and its row, which is no other's.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._rows = _Index()
        self._hashes = array("q")
        self._texts, self._ids = TextWriter(), TextWriter()
        self._nameless = array("q")  # rows whose ids are made up

    def __len__(self) -> int:
        return len(self._hashes)

    def find(self, key: str | bytes) -> int | None:
        """Return the row of an id, or of a text's bytes."""
        return self._rows.get(key)

    def has(self, row: int, text: str) -> bool:
        """Tell whether a row has a text, by its hash."""
        return self._hashes[row] == hash(text)

    def add(self, text: str, id: str | None, where: str, *, by_text: bool = False) -> int:
        """Add a text, to be found by its id; by its bytes, too, if it has no id or if `by_text`.

        Of several equal texts the first is found.
        """
        row = len(self)
        if id is None:
            self._nameless.append(row)
        elif (first := self._rows.setdefault(id, row)) != row:
            raise InputError(f"{where}: duplicate id {show(id)}, first seen as row {first}")
        if id is None or by_text:
            self._rows.setdefault(text.encode(), row)
        self._hashes.append(hash(text))
        self._texts.append(text)
        self._ids.append(f"{self._prefix}{row}" if id is None else id)
        return row

    def finish(self) -> tuple[Texts, Texts]:
        """Return ids and texts; make up other ids for those made up that another text came with."""
        ids = self._ids.finish()
        renamed = {row for row in self._nameless if self.find(f"{self._prefix}{row}") is not None}
        if renamed:
            writer = TextWriter()
            for row, id in enumerate(ids):
                writer.append(self._free(id) if row in renamed else id)
            ids = writer.finish()
        return ids, self._texts.finish()

    def _free(self, id: str) -> str:
        others = (f"{id}-{number}" for number in count(2))
        return next(other for other in others if self.find(other) is None)


@final
class _Index:
    """Find rows by 96 bits of the digests of their keys; a text and equal bytes are different keys.

    A hash table over flat arrays: a key stands in the first free slot from its home on. It takes 24
    to 48 bytes a key, where a dict takes 200.
    """

    def __init__(self, slots: int = 1024) -> None:
        self._count, self._mask = 0, slots - 1
        self._low, self._high = array("Q", bytes(8 * slots)), array("I", bytes(4 * slots))
        self._rows = array("I", bytes(4 * slots))  # and 1, since 0 marks a free slot

    def get(self, key: str | bytes) -> int | None:
        """Return the row of a key."""
        row = self._rows[self._slot(*_halves(key))]
        return row - 1 if row else None

    def setdefault(self, key: str | bytes, row: int) -> int:
        """Give a key a row unless it has one; return the row that it has."""
        if 3 * self._count > 2 * self._mask:
            larger = _Index(2 * (self._mask + 1))
            for low, high, other in zip(self._low, self._high, self._rows, strict=True):
                if other:
                    larger._put(low, high, other)
            vars(self).update(vars(larger))
        return self._put(*_halves(key), row + 1) - 1

    def _put(self, low: int, high: int, row: int) -> int:
        slot = self._slot(low, high)
        if not self._rows[slot]:
            self._low[slot], self._high[slot], self._rows[slot] = low, high, row
            self._count += 1
        return self._rows[slot]

    def _slot(self, low: int, high: int) -> int:
        """Return the slot of a key, or the free one where it would stand."""
        slot = low & self._mask
        while self._rows[slot] and (self._low[slot] != low or self._high[slot] != high):
            slot = slot + 1 & self._mask
        return slot


def _halves(key: str | bytes) -> tuple[int, int]:
    data, person = (key.encode(), b"text") if isinstance(key, str) else (key, b"")
    low, high = _DIGEST.unpack(blake2b(data, digest_size=_DIGEST.size, person=person).digest())
    return low, high


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
