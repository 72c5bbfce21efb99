"""Results as tables for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import rich.table
from rich import box
from rich.console import Console

from unstale.data.dataset import RetrievalDataset
from unstale.report.columns import SHOWN, Table, choose_metrics, comparison, results
from unstale.report.entries import Group, group_runs
from unstale.results import RunResult
from unstale.shown import console, say, shortened

# The metrics that fit in a terminal: of rankings, and of answers.
TERMINAL = {m: SHOWN[m] for m in ("recall@1", "recall@10", "recall@100", "ndcg@10")}
_TEXT = 120  # characters of a text to show
_FEW = 100  # queries, of which each is a point or more
_READ = ("exact_match", "f1", "answer_recall", "recall@1")


def title_of(dataset: RetrievalDataset, split: str) -> str:
    """Name what was measured, and on how many queries: of a few, one more or less is points."""
    name = f"{dataset.name}, {split} split"
    if (qrels := dataset.qrels.get(split.partition(",")[0])) is None:  # of questions, for a reader
        return f"{name}, in percent"
    few = ", too few to tell similar models apart" if len(qrels.query_rows) < _FEW else ""
    return f"{name} ({len(qrels.query_rows):,} queries{few}), in percent"


def print_runs(runs: Sequence[RunResult], *, title: str) -> None:
    """Print the start and every run, in percent; freshness is that of the last reading."""
    several = len({run.seed for run in runs}) > 1
    rows = [
        Group(f"{run.strategy}, seed {run.seed}" if several else run.strategy, [run])
        for run in runs
    ]
    costs = ("train R@1", "seen", "re-embedded", "sampled", "time")
    _console().print(_results(rows, title, costs))
    for run in runs:
        counts, total = run.candidates_dropped, run.candidates_considered or 0
        if dropped := dropped_text(counts, total, run.negatives_missing or 0):
            say(f"{run.strategy}: {dropped}")


def print_found(run: RunResult) -> None:
    """Print what the trained model finds for some queries that it was measured on."""
    drawn = rich.table.Table(
        title=f"what the model finds for queries of {run.split}",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    for head in ("query", "first target found", "labelled target"):
        drawn.add_column(head)
    for one in run.found or ():
        rank = "not in the best 100" if one.label_rank is None else f"rank {one.label_rank}"
        texts = (" ".join(text.split()) for text in (one.query, one.first))  # on one line
        drawn.add_row(*(shortened(text, _TEXT) for text in texts), rank)
    if run.found:
        console().print(drawn)


def print_comparison(runs: Sequence[RunResult], summary: dict[str, Any], *, title: str) -> None:
    """Print the mean over seeds of every strategy and its spread, then what differences mean."""
    rows = group_runs(runs)
    costs = ("train R@1", "overlap", "re-embedded", "sampled", "steps/s")
    _console().print(_results(rows, f"{title}, in percent", costs))
    differences = comparison(rows, summary)
    if differences.columns:
        _console().print(_drawn(f"against {' and '.join(summary['p_value'])}", differences))


def _console() -> Console:
    return console(width=max(180, console().width))  # a number is never cut


def dropped_text(counts: Mapping[str, int], total: int, missing: int = 0) -> str:
    """Say what the filters dropped, if there were any.

    Example:
        >>> dropped_text({"max_score": 30, "range_min": 10}, 400)
        'of 400 candidates dropped: max_score 30 (7.5%), range_min 10 (2.5%)'
    """
    if not counts:
        return ""
    parts = [f"{name} {n:,} ({100 * n / total:.1f}%)" for name, n in counts.items()]
    end = f"; {missing:,} were missing: too few candidates were left" if missing else ""
    return f"of {total:,} candidates dropped: {', '.join(parts)}{end}"


def _results(rows: Sequence[Group], title: str, costs: Sequence[str]) -> rich.table.Table:
    read = any(row.metric("exact_match") for row in rows)
    metrics = choose_metrics(rows, _READ if read else TERMINAL)
    if any(":" in metric for metric in metrics):
        costs = [name for name in costs if name in ("re-embedded", "sampled")]  # as in the paper
    return _drawn(title, results(rows, metrics, costs))


def _drawn(title: str, table: Table) -> rich.table.Table:
    """Draw a column of names, then columns of numbers, and the notes under them."""
    drawn = rich.table.Table(
        title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left"
    )
    drawn.add_column("", no_wrap=True)
    for head in table.columns:
        drawn.add_column(head, justify="right", no_wrap=True)
    for name, start in table.starts.items():
        drawn.add_row(name, *(start.get(head, "") for head in table.columns))
    for i, row in enumerate(table.rows):
        # Without spaces around ±, so that the table is narrow.
        cells = (cells[i].replace(" ± ", "±") for cells in table.columns.values())
        drawn.add_row(row.name, *cells)
    drawn.caption = "\n".join(table.notes)
    return drawn
