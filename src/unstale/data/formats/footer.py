"""How large are the columns of a parquet file? Read from its footer, by no code that can abort.

pyarrow ends the process when it is asked for a column of which the footer is damaged.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

from unstale.budget import RECORD, too_large
from unstale.errors import InputError

_GROUPS, _COLUMNS, _META = 4, 1, 3  # of a file, of a row group, of a column
_PATH, _VALUES, _UNCOMPRESSED, _COMPRESSED = 3, 5, 6, 7  # of a column's meta data
_DEEP = 30


class Chunk(NamedTuple):
    """One column of one row group."""

    name: str
    values: int
    uncompressed: int  # bytes
    compressed: int


def column_chunks(path: Path) -> Iterator[Chunk]:
    """Yield every column of every row group of a parquet file."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        if length > RECORD:
            raise too_large(path, "the footer")
        file.seek(max(0, size - 8 - length))
        data = file.read(length)
    try:
        for group in _Compact(data).struct()[_GROUPS]:
            for column in group[_COLUMNS]:
                meta = column[_META]
                name = b".".join(meta[_PATH]).decode("utf-8", "replace")
                sizes = [meta[i] for i in (_VALUES, _UNCOMPRESSED, _COMPRESSED)]
                if not all(isinstance(size, int) and size >= 0 for size in sizes):
                    raise ValueError("a size that is none")
                yield Chunk(name, *sizes)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a parquet file (its footer: {error})") from None


@final
class _Compact:
    """Read a value of Thrift's compact protocol: a struct is a dict by the fields' numbers."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, deep: int = 0) -> dict[int, Any]:
        if deep > _DEEP:
            raise ValueError("nested too deep")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            found[number] = self._value(head & 15, deep)
        return found

    def _value(self, kind: int, deep: int) -> Any:  # noqa: ANN401 - of that kind
        if kind in (1, 2):  # true and false
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:  # a double, which nobody asks for
            self.at += 8
            return math.nan
        if kind == 8:
            length = self._varint()
            self.at += length
            if self.at > len(self.data):
                raise ValueError("it is cut")
            return self.data[self.at - length : self.at]
        if kind == 9:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            if head & 15 in (1, 2):  # a byte each
                return [self._byte() == 1 for _ in range(count)]
            return [self._value(head & 15, deep + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(deep + 1)
        raise ValueError(f"a value of kind {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number without end")
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
