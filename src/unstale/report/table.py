"""Results as a table for the terminal."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

SHOWN = ("recall@1", "recall@10", "recall@100", "mrr@10", "ndcg@10")


def print_runs(runs: list[dict[str, Any]], *, title: str | None = None) -> None:
    """Print the start and every run, in percent; freshness is that of the last reading."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    for name in (*SHOWN, "top-10 seen", "re-embedded", "seconds"):
        table.add_column(name, justify="right")
    first = runs[0]
    if first["initial_metrics"] is not None:
        table.add_row("before training", *_percent(first["initial_metrics"]), "", "", "")
    for run in runs:
        seconds = f"{run['seconds']['total']:.0f}"
        reembedded = f"{run['targets_reembedded']:,}"
        name = f"{run['strategy']} (seed {run['seed']})"
        table.add_row(name, *_percent(run["metrics"]), _seen(run), reembedded, seconds)
    Console().print(table)


def _percent(metrics: dict[str, float]) -> list[str]:
    return [f"{100 * metrics[name]:.1f}" for name in SHOWN]


def _seen(run: dict[str, Any]) -> str:
    """Show how much of the true top-k the miner saw at the end."""
    if not run["freshness"]:
        return ""
    last = run["freshness"][-1]
    seen = last["overlap_corrected"]
    return f"{100 * (last['overlap_stale'] if seen is None else seen):.0f}%"
