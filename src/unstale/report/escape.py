"""Show text from data in HTML as what it is: nothing in it is obeyed."""

import html

from unstale.shown import shown


def escape(text: object) -> str:
    r"""Escape text for HTML, attributes included, and write characters that hide as their code.

    Example:
        >>> escape("<script>alert('x')</script>")
        '&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;'
        >>> escape("evil\u202eexe")
        'evil[U+202E]exe'
    """
    return html.escape(shown(text))
