"""Which commands do README.md and docs/ tell a reader to type? Each with its page and its line."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import yaml

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(unstale [a-z]+(?:\s[^`]*)?)`")
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
_EXTERNAL = re.compile(r"\]\((https?://[^)\s]+)\)")


@final
@dataclass(frozen=True)
class Command:
    """A command as a page has it, in words.

    `assigned` are the variables set before it, `inline` marks those within a sentence or a table,
    which may lack what a reader fills in.
    """

    page: str
    line: int
    words: tuple[str, ...]
    assigned: tuple[str, ...] = ()
    inline: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {shlex.join([*self.assigned, *self.words])}"


@final
@dataclass(frozen=True)
class Snippet:
    """Python as a page has it, from the line where it begins."""

    page: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {len(self.code.splitlines())} lines of Python"


def pages() -> list[Path]:
    """List the pages in the order of reading: the README, then docs/ as its navigation has it."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    return [ROOT / "README.md", *(ROOT / "docs" / name for name in _leaves(nav))]


def commands() -> list[Command]:
    """Collect what stands in ```console blocks, in order."""
    return [command for page in pages() for command in _in_blocks(page)]


def snippets() -> list[Snippet]:
    """Collect what stands in ```python blocks, in order."""
    return [
        Snippet(_name(page), text.count("\n", 0, block.start()) + 2, block[2])
        for page in pages()
        for text in [page.read_text("utf-8")]
        for block in _BLOCK.finditer(text)
        if block[1] == "python"
    ]


def inline_commands() -> list[Command]:
    """Collect what stands in `unstale ...` spans outside of blocks."""
    found = []
    for page in pages():
        # Blocks are blanked, line by line, so that lines keep their numbers.
        text = _BLOCK.sub(lambda m: "\n" * m[0].count("\n"), page.read_text("utf-8"))
        for match in _INLINE.finditer(text):
            words = shlex.split(match[1].replace("\\|", "|"))
            line = text.count("\n", 0, match.start()) + 1
            found.append(Command(_name(page), line, tuple(words), inline=True))
    return found


def external_links() -> list[str]:
    """List addresses that pages link to; whether they still answer is not checked."""
    return sorted({url for page in pages() for url in _EXTERNAL.findall(page.read_text("utf-8"))})


def _in_blocks(page: Path) -> Iterator[Command]:
    text = page.read_text("utf-8")
    for block in _BLOCK.finditer(text):
        if block[1] != "console":
            continue
        first = text.count("\n", 0, block.start()) + 2
        # A line that ends in a backslash goes on; the command keeps the number of its first.
        pending, began = "", first
        for number, line in enumerate(block[2].splitlines(), first):
            began = number if not pending else began
            pending += line.removesuffix("\\")
            if line.endswith("\\"):
                continue
            words, pending = shlex.split(pending, comments=True), ""
            words = words[: words.index(">")] if ">" in words else words  # where output goes
            assigned = [w for w in words if _ASSIGNMENT.fullmatch(w) and w == words[0]]
            if words:
                left = tuple(words[len(assigned) :])
                yield Command(_name(page), began, left, tuple(assigned))


def _leaves(nav: list[dict[str, object]]) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            if isinstance(value, list):
                yield from _leaves(value)
            else:
                yield str(value)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()
