"""Which columns do the tables of results have, and what do they mean? For terminal and page."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from unstale.report.entries import Group, headline, spoken
from unstale.report.numbers import duration, gap_text, p_text, percent
from unstale.report.summary import gap_recovered, p_value, references
from unstale.results import JsonObject, RunResult

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
_GAPS = ("exact_match", "f1", "recall@1", "recall@10", "recall@100")  # shown of a summary
_COSTS: dict[str, tuple[Callable[[RunResult], float | None], Callable[[float], str]]] = {
    "seen": (lambda run: run.seen, "{:.0%}".format),
    "re-embedded": (lambda run: run.targets_reembedded, "{:,.0f}".format),
    "sampled": (lambda run: run.targets_sampled, "{:,.0f}".format),
    "steps/s": (lambda run: run.steps_per_second, "{:.2f}".format),
    "training": (lambda run: run.training_seconds, duration),
    "time": (lambda run: run.total_seconds, duration),
}
_NOTES = {
    "found": "found: an answer stands in a target that the reader saw",
    "seeds": "±: standard deviation over the seeds",
    "seen": "seen: share of the true top 10 that the searched cache held at the end",
    "sampled": "sampled: targets encoded to fit something, not to refresh",
}
Columns = Mapping[str, Sequence[str]]  # by its name, a column has a cell for each row


def result_columns(
    groups: Sequence[Group], metrics: Sequence[str], costs: Sequence[str]
) -> Columns:
    """Write what came out, in percent, and what it cost; columns without a value are left out."""
    columns = {}
    if any(len(g.runs) > 1 for g in groups):
        columns["seeds"] = [str(len(g.runs)) for g in groups]
    for metric in metrics:
        columns[SHOWN[metric]] = [percent(v) if (v := g.metric(metric)) else "" for g in groups]
    for name in costs:
        value, write = _COSTS[name]
        means = [g.average(value) for g in groups]
        if name != "sampled" or any(means):  # most strategies sample nothing
            columns[name] = ["" if mean is None else write(mean) for mean in means]
    return _filled(columns)


def before(groups: Sequence[Group], metrics: Sequence[str]) -> list[str]:
    """Write the metrics before training, in percent."""
    starts = [run.initial_metrics for g in groups for run in g.runs]
    found = [[start[m] for start in starts if m in start] for m in metrics]
    return [percent([fmean(values)]) if values else "" for values in found]


def comparison_columns(groups: Sequence[Group], summary: JsonObject) -> Columns:
    """Write the gaps that are recovered and the p values, where a summary has any."""
    columns = {
        f"gap at {SHOWN[m]}": [gap_text(gap_recovered(summary, g.strategy, m)) for g in groups]
        for m in _GAPS
    }
    for reference in references(summary):
        columns[f"p vs {reference}"] = [
            p_text(p_value(summary, reference, g.strategy, headline(groups))) for g in groups
        ]
    return _filled(columns)


def result_notes(columns: Columns) -> list[str]:
    """Explain the columns whose names do not."""
    return [note for name, note in _NOTES.items() if name in columns]


def comparison_notes(groups: Sequence[Group], columns: Columns) -> list[str]:
    """Say what gaps and p values are, and what they do not tell."""
    notes = []
    if any(name.startswith("gap") for name in columns):
        rule = "where a strategy stands from stale (0%) to exhaustive (100%), with its 95% interval"
        notes.append(f"gap: {rule}")
    if any(name.startswith("p vs") for name in columns):
        test = f"p: of a paired t-test of {spoken(headline(groups))} over the queries"
        notes.append(f"{test}: it speaks of these trained models, not of other seeds")
    if any("*" in cell for cells in columns.values() for cell in cells):
        notes.append("*: of one seed: how results vary from seed to seed is not in the interval")
    return notes


def _filled(columns: Columns) -> Columns:
    return {name: cells for name, cells in columns.items() if any(cells)}
