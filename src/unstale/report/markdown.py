"""Tables in Markdown, to be pasted into a page: numbers are never typed."""

from collections.abc import Sequence


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Write a table, its first column a name, the others numbers.

    Example:
        >>> print(markdown_table(["", "R@1"], [["stale", "24.2"]]))
        | | R@1 |
        |---|---:|
        | stale | 24.2 |
    """
    rule = "|".join(["", "---", *["---:"] * (len(columns) - 1), ""])
    head, *lines = (
        "|".join(["", *(f" {cell} " if cell else " " for cell in cells), ""])
        for cells in (columns, *rows)
    )
    return "\n".join([head, rule, *lines])
