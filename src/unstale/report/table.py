"""Results as a table for the terminal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from unstale.report.markdown import percent
from unstale.report.summary import gap_recovered, p_value
from unstale.results import RunResult

SHOWN = {
    "exact_match": "EM",
    "f1": "F1",
    "answer_recall": "found",
    "recall@1": "R@1",
    "recall@10": "R@10",
    "recall@100": "R@100",
    "mrr@10": "MRR@10",
    "ndcg@10": "nDCG@10",
}
TERMINAL = {m: SHOWN[m] for m in ("recall@1", "recall@10", "recall@100", "ndcg@10")}
GAPS = ("exact_match", "f1", "recall@1", "recall@10", "recall@100")  # to be shown of a summary
ONE_SEED = "of one seed: how results vary from seed to seed is not in the interval"
_READ = {m: SHOWN[m] for m in ("exact_match", "f1", "answer_recall", "recall@1")}


def print_runs(runs: Sequence[RunResult], *, title: str) -> None:
    """Print the start and every run, in percent; freshness is that of the last reading."""
    columns, spent = _columns(runs), _spent(runs)
    table = _table(title, [*columns.values(), "seen", *spent, "time"])
    if runs[0].steps:
        table.add_row("before", *_percent(runs[0].initial_metrics, columns))
    for run in runs:
        seed = f", seed {run.seed}" if len({r.seed for r in runs}) > 1 else ""
        measured = not run.steps and run.data is None
        name = "as it is" if measured else f"{run.strategy}{seed}"
        seen = "" if run.seen is None else f"{run.seen:.0%}"
        seconds = f"{run.total_seconds or 0.0:.0f} s"
        cost = [f"{value(run) or 0:,}" for value in spent.values()]
        table.add_row(name, *_percent(run.metrics, columns), seen, *cost, seconds)
    if any(run.freshness for run in runs):
        table.caption = (
            "seen: how much of the true top 10 the cached view of the corpus held at the end"
        )
    Console().print(table)
    for run in runs:
        counts, total = run.candidates_dropped, run.candidates_considered or 0
        if dropped := dropped_text(counts, total, run.negatives_missing or 0):
            print(f"{run.strategy}: {dropped}")


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


def p_text(p: float | None) -> str:
    """Write a p value, if there is one."""
    return "" if p is None else ("<.001" if p < 0.001 else f"{p:.3f}")


def _table(title: str, heads: Sequence[str]) -> Table:
    """Start a table: a column of names, then columns of numbers."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _columns(runs: Sequence[RunResult]) -> dict[str, str]:
    """Choose the metrics that fit in a terminal: those of answers, if there are any."""
    there = {name for run in runs for name in run.metrics}
    return {m: n for m, n in (_READ if "exact_match" in there else TERMINAL).items() if m in there}


def _spent(runs: Sequence[RunResult]) -> dict[str, Callable[[RunResult], int | None]]:
    """Name what was encoded beside training: refreshes, and samples if there were any."""
    spent: dict[str, Callable[[RunResult], int | None]] = {
        "re-embedded": lambda run: run.targets_reembedded
    }
    if any(run.targets_sampled for run in runs):
        spent["sampled"] = lambda run: run.targets_sampled
    return spent


def _percent(metrics: Mapping[str, float], columns: Iterable[str]) -> list[str]:
    return [f"{100 * metrics[name]:.1f}" if name in metrics else "" for name in columns]


def print_comparison(runs: Sequence[RunResult], summary: dict[str, Any], *, title: str) -> None:
    """Print the mean over seeds of every strategy and its spread, then what differences mean."""
    columns, spent = _columns(runs), _spent(runs)
    table = _table(f"{title}, in percent", ["seeds", *columns.values(), *spent, "steps/s"])
    table.caption_justify = "center"
    start = max((run.initial_metrics for run in runs), key=len)
    table.add_row("before", "", *_percent(start, columns))
    for strategy, mean in summary["mean"].items():
        own = [run for run in runs if run.strategy == strategy]
        values = [[r.metrics[m] for r in own] if m in mean else [] for m in columns]
        cells = [percent(v).replace(" ", "") if v else "" for v in values]  # a narrow table
        cost = [f"{fmean(value(run) or 0 for run in own):,.0f}" for value in spent.values()]
        speed = f"{fmean(run.steps_per_second or 0.0 for run in own):.1f}"
        table.add_row(strategy, str(len(own)), *cells, *cost, speed)
    if "answer_recall" in columns:
        table.caption = "found: an answer stands in a target that the reader saw"
    console = Console(width=max(140, Console().width))  # a number is never cut
    console.print(table)
    if summary["p_value"]:
        console.print(_differences(summary, columns))


def _differences(summary: dict[str, Any], columns: dict[str, str]) -> Table:
    """Build the table of the gap that each strategy recovers, and of tests."""
    gaps = [m for m in GAPS if m in columns] if summary["gap_recovered"] else []
    judged = "exact_match" if "exact_match" in columns else "recall@10"
    references = list(summary["p_value"])
    heads = [*(f"gap at\n{columns[m]}" for m in gaps), *(f"p vs\n{r}" for r in references)]
    table = _table(f"against {' and '.join(references)}", heads)
    marked = False
    for strategy in summary["mean"]:
        shown = [_gap(summary, strategy, m) for m in gaps]
        tests = [p_text(p_value(summary, r, strategy, judged)) for r in references]
        table.add_row(strategy, *shown, *tests)
        marked = marked or any("*" in cell for cell in shown)
    said = []
    if gaps:
        said = ["gap: where a strategy stands from stale, 0, to exhaustive, 1 [95% interval]"]
    said.append(
        f"p: at {columns[judged]}, of a paired t-test over queries: of these models, not of seeds"
    )
    if marked:
        said.append(f"*: {ONE_SEED}")
    table.caption = "\n".join(said)
    return table


def _gap(summary: dict[str, Any], strategy: str, metric: str) -> str:
    if (gap := gap_recovered(summary, strategy, metric)) is None:
        return ""
    return f"{gap.value:.2f} [{gap.low:.2f}, {gap.high:.2f}]{'*' if gap.one_seed else ''}"
