"""Results as tables for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from unstale.report.columns import (
    SHOWN,
    Columns,
    before,
    comparison_columns,
    comparison_notes,
    result_columns,
    result_notes,
)
from unstale.report.entries import Group, group_runs
from unstale.results import RunResult

# The metrics that fit in a terminal: of rankings, and of answers.
TERMINAL = {m: SHOWN[m] for m in ("recall@1", "recall@10", "recall@100", "ndcg@10")}
_READ = ("exact_match", "f1", "answer_recall", "recall@1")


def print_runs(runs: Sequence[RunResult], *, title: str) -> None:
    """Print the start and every run, in percent; freshness is that of the last reading."""
    several = len({run.seed for run in runs}) > 1
    rows = [
        Group(f"{run.strategy}, seed {run.seed}" if several else run.strategy, [run])
        for run in runs
    ]
    Console().print(_results(rows, title, ("seen", "re-embedded", "sampled", "time")))
    for run in runs:
        counts, total = run.candidates_dropped, run.candidates_considered or 0
        if dropped := dropped_text(counts, total, run.negatives_missing or 0):
            print(f"{run.strategy}: {dropped}")


def print_comparison(runs: Sequence[RunResult], summary: dict[str, Any], *, title: str) -> None:
    """Print the mean over seeds of every strategy and its spread, then what differences mean."""
    rows = group_runs(runs)
    console = Console(width=max(140, Console().width))  # a number is never cut
    console.print(_results(rows, f"{title}, in percent", ("re-embedded", "sampled", "steps/s")))
    if columns := comparison_columns(rows, summary):
        against = " and ".join(summary["p_value"])
        console.print(_table(f"against {against}", rows, columns, comparison_notes(rows, columns)))


def dropped_text(counts: Mapping[str, int], total: int, missing: int = 0) -> str:
    """Say what the filters dropped, if there were any.

    Example:
        >>> dropped_text({"max_score": 30, "range_min": 10}, 400)
        'of 400 candidates dropped: max_score 30 (7.5%), range_min 10 (2.5%)'
    """
    if not counts:
        return ""
    parts = [f"{name} {n:,} ({100 * n / total:.1f}%)" for name, n in counts.items()]
    end = f"; {missing:,} negatives were missing: too few candidates were left" if missing else ""
    return f"of {total:,} candidates dropped: {', '.join(parts)}{end}"


def _results(rows: Sequence[Group], title: str, costs: Sequence[str]) -> Table:
    read = any(row.metric("exact_match") for row in rows)
    metrics = [m for m in (_READ if read else TERMINAL) if any(row.metric(m) for row in rows)]
    columns = result_columns(rows, metrics, costs)
    start = dict(zip((SHOWN[m] for m in metrics), before(rows, metrics), strict=True))
    first = start if any(row.trained for row in rows) else None
    return _table(title, rows, columns, result_notes(columns), first)


def _table(
    title: str,
    rows: Sequence[Group],
    columns: Columns,
    notes: Sequence[str],
    first: Mapping[str, str] | None = None,
) -> Table:
    """Build a table: a column of names, then columns of numbers."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    if first:
        table.add_row("before", *(first.get(head, "") for head in columns))
    for i, row in enumerate(rows):
        # Without spaces around ±, so that the table is narrow.
        table.add_row(row.name, *(cells[i].replace(" ± ", "±") for cells in columns.values()))
    table.caption = "\n".join(notes)
    return table
