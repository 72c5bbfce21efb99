"""Texts in the order they came, each with an id of its own, found again by it or by the text."""

from array import array
from itertools import count
from typing import final

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import Texts
from unstale.data.index import Index
from unstale.data.lines import show
from unstale.data.spill import TextWriter
from unstale.errors import InputError

_CHUNK = 8192  # ids looked at together


@final
class Rows:
    """Texts in the order they came, each with an id, found again by it or by the text's bytes.

    A text that came without an id gets one made up of its row, which is no other's.

    Args:
        prefix: Of the ids that are made up.
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
        """Count the texts."""
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
        row = len(self)
        if key is not None and (first := self._rows.put(key, row)) != row:
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
        ids, texts = self._ids.finish(), self._texts.finish()
        named = len(self) - len(self._nameless)
        if named and (self._lines or self._nameless):
            ids = self._distinct(ids)
        return ids, texts

    def _distinct(self, ids: Texts) -> Texts:
        """Make up other ids for those that were made up and are another text's."""
        every = (hash(id) for _, chunk in ids.chunks(_CHUNK) for id in chunk)
        hashes = np.fromiter(every, np.int64, len(self))
        ordered = np.sort(hashes)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if not len(repeated):
            return ids
        rows = np.flatnonzero(np.isin(hashes, repeated))
        nameless = np.isin(rows, np.frombuffer(self._nameless, np.int64))
        own: dict[str, int] = {}
        for row, id in zip(rows[~nameless].tolist(), ids.take(rows[~nameless]), strict=True):
            if (first := own.setdefault(id, row)) != row:
                lines = f"{self._file}{self._lines[row]}", f"{self._file}{self._lines[first]}"
                raise InputError(f"{lines[0]}: duplicate id {show(id)}, first seen in {lines[1]}")
        renamed = {row: self._made_up(row, ordered) for row in rows[nameless].tolist()}
        if not renamed:
            return ids
        writer = TextWriter()
        for start, chunk in ids.chunks(_CHUNK):
            for row, id in enumerate(chunk, start):
                writer.append(renamed.get(row, id))
        return writer.finish()

    def _made_up(self, row: int, hashes: Int[ndarray, " n"]) -> str:
        """Return an id that no text has, given the sorted hashes of all."""
        for number in count(2):
            id = f"{self._prefix}{row}-{number}"
            place = np.searchsorted(hashes, hash(id))
            if place == len(hashes) or hashes[place] != hash(id):
                break
        return id
