"""The results as an HTML table: a row a strategy, best first, numbers that line up."""

from collections.abc import Callable, Sequence
from statistics import fmean

from unstale.report.entries import (
    Group,
    average,
    headline,
    spoken,
    spread,
)
from unstale.report.escape import escape
from unstale.report.figures import tone
from unstale.report.table import GAPS, ONE_SEED, SHOWN
from unstale.report.words import duration, gap_recovered, look_up, one_seed, trained
from unstale.results import Record, RunResult, number

_NOTHING = '<td class="none">&ndash;</td>'


def results_table(groups: Sequence[Group]) -> str:
    """Build the table of what came out and what it cost; empty columns are left out."""
    metrics = [m for m in SHOWN if any(g.mean(m) is not None for g in groups)]
    best = {m: max(g.mean(m) or 0.0 for g in groups) for m in metrics}
    ranked = _ranked(groups)
    whole = "{:,.0f}".format
    costs = _filled(
        {
            "seen": [_seen(g) for g in ranked],
            "re-embedded": [
                _mean(g, "{:,.0f}".format, lambda e: e.targets_reembedded) for g in ranked
            ],
            "sampled": [_mean(g, whole, lambda e: e.targets_sampled) for g in ranked],
            "steps/s": [_mean(g, "{:.2f}".format, lambda e: e.steps_per_second) for g in ranked],
            "training": [_mean(g, duration, lambda e: e.training_seconds) for g in ranked],
        }
    )
    if not any(e.targets_sampled for g in groups for e in g.entries):
        costs.pop("sampled", None)
    columns = {
        SHOWN[m]: [_metric(g.metric(m), best[m], len(groups)) for g in ranked] for m in metrics
    }
    said, seeds = ["Metrics in percent."], {}
    if several := any(len(g.entries) > 1 for g in groups):
        said.append("±: standard deviation over the seeds.")
        seeds = {"seeds": [str(len(g.entries)) for g in ranked]}
    if "seen" in costs:
        said.append("Seen: share of the true top 10 that the searched cache held at the end.")
    if "sampled" in costs:
        said.append("Sampled: targets encoded to fit something, not to refresh.")
    before = _before(groups, metrics, len(costs), several=several)
    return _table("results", ranked, seeds | columns | costs, before, " ".join(said))


def comparison_table(groups: Sequence[Group], summary: Record) -> str:
    """Build the table of what the differences mean, if the results say so."""
    ranked, metric = _ranked(groups), headline(groups)
    columns = _filled(
        {
            **{f"gap at {SHOWN[m]}": [_gap(summary, g, m) for g in ranked] for m in GAPS},
            "p vs stale": [_p(summary, g, "stale", metric) for g in ranked],
            "p vs exhaustive": [_p(summary, g, "exhaustive", metric) for g in ranked],
        }
    )
    if not columns:
        return ""
    said = []
    if any(name.startswith("gap") for name in columns):
        said.append(
            "Gap: where a strategy stands from stale (0%) to exhaustive (100%), with its "
            "95% interval."
        )
    if any(name.startswith("p ") for name in columns):
        said.append(
            f"p: of a paired t-test of {spoken(metric)} over the queries: it speaks of "
            "these trained models, not of other seeds."
        )
    if any(one_seed(summary, g.strategy) for g in groups):
        said.append(f"*: {ONE_SEED}.")
    return _table("comparison", ranked, columns, "", " ".join(said))


def _ranked(groups: Sequence[Group]) -> list[Group]:
    metric = headline(groups)
    return sorted(groups, key=lambda g: -(g.mean(metric) or 0.0))


def _filled(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: cells for name, cells in columns.items() if any(cells)}


def _table(
    kind: str, groups: Sequence[Group], columns: dict[str, list[str]], first: str, note: str
) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    body = first
    for i, group in enumerate(groups):
        cells = "".join(f"<td>{c[i]}</td>" if c[i] else _NOTHING for c in columns.values())
        name = f'<span class="swatch {tone(group.strategy)}"></span>{escape(group.name)}'
        body += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    corner = '<th scope="col"><span class="hidden">strategy</span></th>'
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{corner}{head}</tr>'
        f'</thead><tbody>{body}</tbody></table></div><p class="note">{note}</p>'
    )


def _before(groups: Sequence[Group], metrics: Sequence[str], blanks: int, *, several: bool) -> str:
    if not any(trained(g) for g in groups):
        return ""
    entries = [e for g in groups for e in g.entries]
    # Under a spread that is not there, so that the means line up.
    room = ' <span class="spread blank" aria-hidden="true">±&nbsp;0.0</span>' if several else ""
    cells = "<td></td>" if several else ""  # no seeds yet
    for metric in metrics:
        values = [e.initial_metrics[metric] for e in entries if metric in e.initial_metrics]
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
    if sd is not None:
        shown += f' <span class="spread">±&nbsp;{100 * sd:.1f}</span>'
    return shown


def _mean(
    group: Group, write: Callable[[float], str], value: Callable[[RunResult], float | int | None]
) -> str:
    mean = average(group.of(value))
    return "" if mean is None else write(mean)


def _gap(summary: Record, group: Group, metric: str) -> str:
    gap = gap_recovered(summary, group.strategy, metric)
    if gap is None:
        return ""
    value, low, high = gap
    shown = f"{_signed(value)}%"
    if low is not None and high is not None:
        mark = "&nbsp;*" if one_seed(summary, group.strategy) else ""
        shown += f' <span class="spread">{_signed(low)} to {_signed(high)}{mark}</span>'
    return shown


def _signed(value: float) -> str:
    return f"{round(100 * value)}".replace("-", "&minus;")


def _p(summary: Record, group: Group, against: str, metric: str) -> str:
    p = number(look_up(summary, "p_value", against, group.strategy, metric))
    if p is None:
        return ""
    return "&lt;&nbsp;0.001" if p < 0.001 else f"{p:.3f}"


def _seen(group: Group) -> str:
    """Return how much of the true top 10 the view that the miner searches held at the end."""
    taken = group.readings("overlap_corrected") or group.readings("overlap_stale")
    return f"{100 * fmean(taken[-1][1]):.0f}%" if taken else ""
