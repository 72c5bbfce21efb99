"""How many bytes may one thing in a file take? One budget for every reader.

Without one, a small file can ask for any amount of memory: a line that never ends, a value that
is stored once and meant a million times.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from unstale.errors import InputError

RECORD = 2**25  # of a line, an element of an array, a row, or a whole small file
FLAGS = 2**20  # of a file of flags


def too_large(where: object, what: str, most: int = RECORD) -> InputError:
    """Say that one thing is larger than the budget."""
    return InputError(f"{where}: {what} takes more than {most // 2**20} MB, the most that is read")


def read_small(path: Path, most: int = RECORD) -> bytes:
    """Read a whole file that must be small."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise too_large(path, "the file", most)
    return data


def lines_of(file: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield `(line number, line)` with its end."""
    for number, line in enumerate(iter(partial(file.readline, RECORD + 1), b""), 1):
        if len(line) > RECORD:
            raise too_large(f"{path}:{number}", "the line")
        yield number, line


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object that a command of unstale wrote, or say what is wrong with it."""
    data = read_small(path)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, nested too deep
        raise InputError(f"{path} is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold a JSON object")
    return value
