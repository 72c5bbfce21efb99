"""Results as a table for the terminal."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

SHOWN = {
    "recall@1": "R@1",
    "recall@10": "R@10",
    "recall@100": "R@100",
    "mrr@10": "MRR@10",
    "ndcg@10": "nDCG@10",
}
TERMINAL = {m: name for m, name in SHOWN.items() if m != "mrr@10"}  # what 80 columns hold


def print_runs(runs: list[dict[str, Any]], *, title: str) -> None:
    """Print the start and every run, in percent; freshness is that of the last reading."""
    caption = "seen: how much of the true top 10 the cached view of the corpus held at the end"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    for name in (*TERMINAL.values(), "seen", "re-embedded", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    if runs[0]["steps"]:
        table.add_row("before", *_percent(runs[0]["initial_metrics"]), "", "", "")
    for run in runs:
        seed = f", seed {run['seed']}" if len({r["seed"] for r in runs}) > 1 else ""
        name = f"{run['strategy']}{seed}" if run["steps"] else "as it is"
        seconds = f"{run['seconds']['total']:.0f} s"
        reembedded = f"{run['targets_reembedded']:,}"
        table.add_row(name, *_percent(run["metrics"]), _seen(run), reembedded, seconds)
    if any(run["freshness"] for run in runs):
        table.caption = caption
    Console().print(table)
    for run in runs:
        if dropped := dropped_text(run):
            print(f"{run['strategy']}: {dropped}")


def dropped_text(run: dict[str, Any]) -> str:
    """Say what the filters dropped, if there were any.

    Example:
        >>> counts = {"max_score": 30, "range_min": 10}
        >>> dropped_text({"candidates_dropped": counts, "candidates_considered": 400})
        'of 400 candidates dropped: max_score 30 (7.5%), range_min 10 (2.5%)'
    """
    counts, total = run.get("candidates_dropped", {}), run.get("candidates_considered", 0)
    if not counts:
        return ""
    parts = [f"{name} {n:,} ({100 * n / total:.1f}%)" for name, n in counts.items()]
    missing = run.get("negatives_missing", 0)
    end = f"; {missing:,} negatives were missing: too few candidates were left" if missing else ""
    return f"of {total:,} candidates dropped: {', '.join(parts)}{end}"


def p_text(p: float | None) -> str:
    """Write a p value, if there is one."""
    return "" if p is None else ("<.001" if p < 0.001 else f"{p:.3f}")


def _percent(metrics: dict[str, float]) -> list[str]:
    return [f"{100 * metrics[name]:.1f}" for name in TERMINAL]


def _seen(run: dict[str, Any]) -> str:
    if not run["freshness"]:
        return ""
    last = run["freshness"][-1]
    corrected = last["overlap_corrected"]
    return f"{100 * (last['overlap_stale'] if corrected is None else corrected):.0f}%"


def print_comparison(runs: list[dict[str, Any]], summary: dict[str, Any], *, title: str) -> None:
    """Print the mean over seeds of every strategy, its spread, and the gap it recovers."""
    table = Table(title=f"{title}, in percent", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("", no_wrap=True)
    for name in (*TERMINAL.values(), "gap", "p", "re-embedded", "steps/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("before", *[f"{100 * runs[0]['initial_metrics'][m]:.1f}" for m in TERMINAL])
    for strategy, mean in summary["mean"].items():
        own = [run for run in runs if run["strategy"] == strategy]
        cells = [f"{100 * mean[m]:.1f}±{100 * summary['std'][strategy][m]:.1f}" for m in TERMINAL]
        gap = summary["gap_recovered"].get(strategy, {}).get("recall@10")
        p = summary["p_value"].get("stale", {}).get(strategy, {}).get("recall@10")
        speed = sum(run["steps_per_second"] for run in own) / len(own)
        table.add_row(
            strategy,
            *cells,
            "" if gap is None else f"{gap:.2f}",
            p_text(p),
            f"{own[0]['targets_reembedded'] + own[0]['targets_sampled']:,}",
            f"{speed:.1f}",
        )
    table.caption = "gap: of stale to exhaustive, recovered at R@10; p: R@10 against stale, paired"
    Console(width=max(100, Console().width)).print(table)
