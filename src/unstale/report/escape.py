"""Show text from data in HTML as what it is: nothing in it is obeyed."""

import html
import unicodedata

# Control, format (bidirectional overrides, zero-width marks), surrogates, which no file can hold,
# and the two separators that break lines.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Layout, and the joiners that Persian, Hindi and emoji are spelled with.
_KEPT = {"\n", "\t", "\u200c", "\u200d"}


def escape(text: object) -> str:
    r"""Escape text for HTML, and write characters that would not be seen as their code.

    Example:
        >>> escape("<script>alert('x')</script>")
        '&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;'
        >>> escape("evil\u202eexe")
        'evil<span class="code">U+202E</span>exe'
    """
    return "".join(_shown(c) for c in str(text).replace("\r\n", "\n"))


def plain(text: object) -> str:
    """Escape text where HTML allows no elements: in attributes and in an SVG's titles."""
    return html.escape(
        "".join(f"U+{ord(c):04X}" if _hidden(c) else c for c in str(text)), quote=True
    )


def _shown(c: str) -> str:
    return f'<span class="code">U+{ord(c):04X}</span>' if _hidden(c) else html.escape(c)


def _hidden(c: str) -> bool:
    return c not in _KEPT and unicodedata.category(c) in _HIDDEN
