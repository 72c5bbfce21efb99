"""Show text from data in HTML as what it is: nothing in it is obeyed."""

import html
import unicodedata

# Control, format (bidirectional overrides, zero-width marks), surrogates, which no file can hold,
# and the two separators that break lines.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Layout, and the joiners that Persian, Hindi and emoji are spelled with.
_KEPT = {"\n", "\t", "\u200c", "\u200d"}


def escape(text: object) -> str:
    r"""Escape text for HTML, attributes included, and write characters that hide as their code.

    Example:
        >>> escape("<script>alert('x')</script>")
        '&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;'
        >>> escape("evil\u202eexe")
        'evil[U+202E]exe'
    """
    shown = ""
    for c in str(text).replace("\r\n", "\n"):
        hidden = c not in _KEPT and unicodedata.category(c) in _HIDDEN
        shown += f"[U+{ord(c):04X}]" if hidden else c
    return html.escape(shown)
