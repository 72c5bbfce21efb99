"""The results as HTML tables: a row a strategy, best first, numbers that line up."""

from collections.abc import Callable, Sequence
from statistics import fmean

from unstale.report.entries import Group, headline, ranked, spoken, spread
from unstale.report.escape import escape
from unstale.report.summary import gap_recovered, p_value
from unstale.report.table import GAPS, ONE_SEED, SHOWN
from unstale.report.words import duration
from unstale.results import JsonObject, RunResult

_NOTHING = '<td class="none">&ndash;</td>'


def results_table(groups: Sequence[Group]) -> str:
    """Build the table of what came out and what it cost; empty columns are left out."""
    rows = ranked(groups)
    metrics = [m for m in SHOWN if any(g.metric(m) for g in groups)]
    best = {m: max(g.mean(m) or 0.0 for g in groups) for m in metrics}
    whole = "{:,.0f}".format
    costs = _filled(
        {
            "seen": [_mean(g, "{:.0%}".format, lambda run: run.seen) for g in rows],
            "re-embedded": [_mean(g, whole, lambda run: run.targets_reembedded) for g in rows],
            "sampled": [_mean(g, whole, lambda run: run.targets_sampled) for g in rows],
            "steps/s": [_mean(g, "{:.2f}".format, lambda run: run.steps_per_second) for g in rows],
            "training": [_mean(g, duration, lambda run: run.training_seconds) for g in rows],
        }
    )
    if not any(run.targets_sampled for g in groups for run in g.runs):
        costs.pop("sampled", None)
    columns = {
        SHOWN[m]: [_metric(g.metric(m), best[m], len(groups)) for g in rows] for m in metrics
    }
    said, seeds = ["Metrics in percent."], {}
    if several := any(len(g.runs) > 1 for g in groups):
        said.append("±: standard deviation over the seeds.")
        seeds = {"seeds": [str(len(g.runs)) for g in rows]}
    if "seen" in costs:
        said.append("Seen: share of the true top 10 that the searched cache held at the end.")
    if "sampled" in costs:
        said.append("Sampled: targets encoded to fit something, not to refresh.")
    before = _before(groups, metrics, len(costs), several=several)
    return _table("results", rows, seeds | columns | costs, before, said)


def comparison_table(groups: Sequence[Group], summary: JsonObject) -> str:
    """Build the table of what the differences mean, if the results say so."""
    rows, metric = ranked(groups), headline(groups)
    gaps = _filled({f"gap at {SHOWN[m]}": [_gap(summary, g, m) for g in rows] for m in GAPS})
    tests = _filled(
        {f"p vs {r}": [_p(summary, g, r, metric) for g in rows] for r in ("stale", "exhaustive")}
    )
    said = []
    if gaps:
        said.append(
            "Gap: where a strategy stands from stale (0%) to exhaustive (100%), with its "
            "95% interval."
        )
    if tests:
        said.append(
            f"p: of a paired t-test of {spoken(metric)} over the queries: it speaks of "
            "these trained models, not of other seeds."
        )
    if any("*" in cell for cells in gaps.values() for cell in cells):
        said.append(f"*: {ONE_SEED}.")
    return _table("comparison", rows, gaps | tests, "", said) if gaps or tests else ""


def _filled(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: cells for name, cells in columns.items() if any(cells)}


def _table(
    kind: str,
    groups: Sequence[Group],
    columns: dict[str, list[str]],
    first: str,
    notes: Sequence[str],
) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    body = first
    for i, group in enumerate(groups):
        cells = "".join(f"<td>{c[i]}</td>" if c[i] else _NOTHING for c in columns.values())
        name = f'<span class="swatch {group.tone}"></span>{escape(group.name)}'
        body += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    corner = '<th scope="col"><span class="hidden">strategy</span></th>'
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{corner}{head}</tr>'
        f'</thead><tbody>{body}</tbody></table></div><p class="note">{" ".join(notes)}</p>'
    )


def _before(groups: Sequence[Group], metrics: Sequence[str], blanks: int, *, several: bool) -> str:
    if not any(g.trained for g in groups):
        return ""
    # Under a spread that is not there, so that the means line up.
    room = ' <span class="spread blank" aria-hidden="true">±&nbsp;0.0</span>' if several else ""
    cells = "<td></td>" if several else ""  # no seeds yet
    starts = [run.initial_metrics for g in groups for run in g.runs]
    for metric in metrics:
        values = [start[metric] for start in starts if metric in start]
        cells += f"<td>{100 * fmean(values):.1f}{room}</td>" if values else _NOTHING
    blank = "<td></td>" * blanks
    return f'<tr class="before"><th scope="row">before training</th>{cells}{blank}</tr>'


def _metric(values: Sequence[float], best: float, rivals: int) -> str:
    if not values:
        return ""
    mean, sd = fmean(values), spread(values)
    shown = f"{100 * mean:.1f}"
    if rivals > 1 and mean >= best - 1e-12:
        shown = f"<strong>{shown}</strong>"
    return shown if sd is None else f'{shown} <span class="spread">±&nbsp;{100 * sd:.1f}</span>'


def _mean(
    group: Group, write: Callable[[float], str], value: Callable[[RunResult], float | int | None]
) -> str:
    mean = group.average(value)
    return "" if mean is None else write(mean)


def _gap(summary: JsonObject, group: Group, metric: str) -> str:
    if (gap := gap_recovered(summary, group.strategy, metric)) is None:
        return ""
    value, *ends = (None if v is None else f"{round(100 * v)}" for v in gap[:3])
    shown = f"{value}%"
    if None not in ends:
        mark = "&nbsp;*" if gap.one_seed else ""
        shown += f' <span class="spread">{ends[0]} to {ends[1]}{mark}</span>'
    return shown.replace("-", "&minus;")


def _p(summary: JsonObject, group: Group, against: str, metric: str) -> str:
    if (p := p_value(summary, against, group.strategy, metric)) is None:
        return ""
    return "&lt;&nbsp;0.001" if p < 0.001 else f"{p:.3f}"
