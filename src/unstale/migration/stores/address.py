"""Where a collection is, as one writes it on a command line: `qdrant:PATH#docs?id=doc_id`."""

from collections.abc import Sequence
from typing import NamedTuple, final
from urllib.parse import parse_qsl

from unstale.errors import InputError

KINDS = ("qdrant", "lancedb", "chroma", "pgvector", "sqlite-vec")


def is_store(vectors: str) -> bool:
    """Say whether these vectors are in a database."""
    return vectors.partition(":")[0] in KINDS and "#" in vectors


@final
class Address(NamedTuple):
    """A database, a collection in it, and the fields of its rows that hold the id and the vector.

    Example:
        >>> Address.read("lancedb:data/wiki#docs?id=doc")
        Address(kind='lancedb', place='data/wiki', name='docs', id='doc', vector=None)
    """

    kind: str
    place: str  # a folder, or the address of a server
    name: str  # of the collection or table
    id: str | None = None
    vector: str | None = None

    @classmethod
    def read(cls, text: str) -> "Address":
        """Read an address; the error says what is missing."""
        kind, _, rest = text.partition(":")
        place, _, name = rest.rpartition("#")
        name, _, options = name.partition("?")
        known = dict(parse_qsl(options))
        if not place or not name or set(known) - {"id", "vector"}:
            form = f"{kind}:PLACE#COLLECTION, if need be with ?id=FIELD&vector=FIELD at its end"
            raise InputError(f"--vectors {text}: expected {form}")
        return cls(kind, place, name, known.get("id"), known.get("vector"))

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}#{self.name}"


def only_one(found: Sequence[str], named: str | None, what: str, address: Address) -> str:
    """Return the field that was named, or the only one there is."""
    if named in found:
        return str(named)
    if named is None and len(found) == 1:
        return found[0]
    there = ", ".join(found) or "none"
    option = f"name it as in `{address}?{what}=FIELD`"
    asked = "which one is meant is not said" if named is None else f"{named} is not among them"
    raise InputError(f"{address} has the {what} fields {there}; {asked}: {option}")
