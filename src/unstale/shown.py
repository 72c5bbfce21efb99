"""Text from data on a terminal or a page, as what it is: nothing in it is obeyed."""

import logging
import sys
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from rich.console import Console

# Control, format (bidirectional overrides, zero-width marks), surrogates, which no file can hold,
# and the two separators that break lines.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Layout, and the joiners that Persian, Hindi and emoji are spelled with.
_KEPT = {"\n", "\t", "\u200c", "\u200d"}


def shown(text: object) -> str:
    r"""Write characters that a terminal would obey, or that hide, as their code.

    Every string that goes to a terminal or into a page passes here.

    Example:
        >>> shown("a\x1b[2Jb"), shown("evil\u202eexe")
        ('a[U+001B][2Jb', 'evil[U+202E]exe')
    """
    said = str(text).replace("\r\n", "\n")
    if said.isprintable():
        return said
    return "".join(map(_seen, said))


@lru_cache(4096)
def _seen(c: str) -> str:
    hidden = c not in _KEPT and unicodedata.category(c) in _HIDDEN
    return f"[U+{ord(c):04X}]" if hidden else c


def shortened(text: str, most: int) -> str:
    """Cut a text that has more characters.

    Example:
        >>> shortened("abcde", 5), shortened("abcdef", 5)
        ('abcde', 'abcd…')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def say(text: object = "", *, flush: bool = False) -> None:
    """Print a line."""
    print(shown(text), flush=flush)  # noqa: T201 - the one place that prints


def fail(text: object) -> None:
    """Print a line of an error."""
    sys.stderr.write(f"{shown(text)}\n")


def console(width: int | None = None) -> "Console":
    """Return a console for tables, which takes no text for markup, and shows all of it."""
    from rich.console import Console  # not above: `--help` must not wait for it
    from rich.text import Text

    @final
    class Shown(Console):
        def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - as rich has it
            """Make a cell or a title of a string: rich does it here alone."""
            return super().render_str(shown(text), **options)

    return Shown(width=width, markup=False, emoji=False, highlight=False)


def show_logs() -> None:
    """Let warnings pass `shown`, too, wherever nobody else has set up logging."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Shown())


@final
class _Shown(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))
