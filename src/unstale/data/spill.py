"""Texts that arrive one by one: in memory while they are few, in a file once they are many."""

import mmap
import tempfile
from typing import IO, Any, final

import pyarrow as pa

from unstale.data.dataset import Texts
from unstale.files import cache_folder

_BATCH = 8192  # texts to one Arrow chunk
_SPILL = 16 * 2**20  # bytes of texts kept in memory
_SCHEMA = pa.schema([("text", pa.large_string())])


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
        if len(self._batch) == _BATCH:
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
        chunk = pa.array(self._batch, pa.large_string())
        self._batch = []
        self._bytes += chunk.nbytes
        if self._file is None and self._bytes > _SPILL:
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it lives on
            self._stream = pa.ipc.new_stream(self._file, _SCHEMA)
            for earlier in self._chunks:
                self._write(earlier)
            self._chunks = []
        if self._file is None:
            self._chunks.append(chunk)
        else:
            self._write(chunk)

    def _write(self, chunk: pa.Array) -> None:
        self._stream.write_batch(pa.record_batch([chunk], _SCHEMA))
