"""Tables in Markdown, to be pasted into a page: numbers are never typed."""

from collections.abc import Sequence
from statistics import fmean

from unstale.report.entries import spread


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Write a table, its first column a name, the others numbers.

    Example:
        >>> print(markdown_table(["", "R@1"], [["stale", "24.2"]]))
        | | R@1 |
        |---|---:|
        | stale | 24.2 |
    """
    lines = ["|".join(["", *(f" {c} " if c else " " for c in cells), ""]) for cells in rows]
    head = "|".join(["", *(f" {c} " if c else " " for c in columns), ""])
    rule = "|".join(["", "---", *["---:"] * (len(columns) - 1), ""])
    return "\n".join([head, rule, *lines])


def percent(values: Sequence[float]) -> str:
    """Write the mean of fractions in percent, with the standard deviation of several.

    Example:
        >>> percent([0.24, 0.26]), percent([0.5])  # the deviation of 24 and 26 is the root of 2
        ('25.0 ± 1.4', '50.0')
    """
    sd = spread(values)
    shown = f"{100 * fmean(values):.1f}"
    return shown if sd is None else f"{shown} ± {100 * sd:.1f}"
