"""How are numbers written? The same in a terminal, on a page and in a Markdown table."""

from collections.abc import Sequence
from statistics import fmean, stdev

from unstale.evaluation.significance import SeedDifference
from unstale.report.summary import RecoveredGap


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation over seeds, or None of fewer than two."""
    return stdev(values) if len(values) > 1 else None


def percent(values: Sequence[float]) -> str:
    """Write the mean of fractions in percent, with the standard deviation of several.

    Example:
        >>> percent([0.24, 0.26]), percent([0.5])  # the deviation of 24 and 26 is the root of 2
        ('25.0 ± 1.4', '50.0')
    """
    sd = spread(values)
    shown = f"{100 * fmean(values):.1f}"
    return shown if sd is None else f"{shown} ± {100 * sd:.1f}"


def p_text(p: float | None) -> str:
    """Write a p value, if there is one."""
    return "" if p is None else ("<.001" if p < 0.001 else f"{p:.3f}")


def gap_text(gap: RecoveredGap | None) -> str:
    """Write a recovered gap with its 95% interval, if there is one; a star marks a single seed.

    Example:
        >>> gap_text(RecoveredGap(0.2, -0.1, 0.4, one_seed=True))
        '20% [-10, 40]*'
    """
    if gap is None or gap.low is None or gap.high is None:
        return "" if gap is None else f"{round(100 * gap.value)}%"
    ends = f"[{round(100 * gap.low)}, {round(100 * gap.high)}]"
    return f"{round(100 * gap.value)}% {ends}{'*' if gap.one_seed else ''}"


def difference_text(difference: SeedDifference | None) -> str:
    """Write a difference of fractions in percent points, with its 95% interval over seeds.

    Example:
        >>> difference_text(SeedDifference(0.021, -0.004, 0.046, 0.07, 3))
        '+2.1 [-0.4, +4.6]'
        >>> difference_text(None)
        'one seed'
    """
    if difference is None:
        return "one seed"
    mean, low, high = (f"{100 * value:+.1f}" for value in difference[:3])
    return f"{mean} [{low}, {high}]"


def duration(seconds: float) -> str:
    """Write a time as a person would.

    Example:
        >>> [duration(s) for s in (0.42, 12.6, 252.0, 7860.0)]
        ['0.4 s', '13 s', '4 min 12 s', '2 h 11 min']
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole, minutes = round(seconds), round(seconds / 60)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"
