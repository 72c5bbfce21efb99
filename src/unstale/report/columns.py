"""Which columns do the tables of results have, and what do they mean? For terminal and page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import final

from unstale.report.entries import Group, headline, spoken
from unstale.report.numbers import difference_text, duration, gap_text, p_text, percent
from unstale.report.summary import difference, gap_recovered, p_value, references
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
_ANSWER_GAPS = ("answer_recall@1", "answer_recall@20", "answer_recall@100")
_KINDS = {"recall": "R", "success": "S", "answer_recall": "A"}
_CUTOFFS = (1, 5, 10, 20, 100)  # of the paper's columns
_COSTS: dict[str, tuple[Callable[[RunResult], float | None], Callable[[float], str]]] = {
    "train R@1": (lambda run: run.trained("recall@1"), lambda mean: percent([mean])),
    "seen": (lambda run: run.seen, "{:.0%}".format),
    "overlap": (lambda run: (run.overlap or {}).get("searched"), "{:.1%}".format),
    "re-embedded": (lambda run: run.targets_reembedded, "{:,.0f}".format),
    "sampled": (lambda run: run.targets_sampled, "{:,.0f}".format),
    "steps/s": (lambda run: run.steps_per_second, "{:.2f}".format),
    "training": (lambda run: run.training_seconds, duration),
    "time": (lambda run: run.total_seconds, duration),
}
ON_TRAIN = (
    "MEASURED ON TRAINING QUERIES: this shows what the model memorised, not how well it will "
    "search; use --eval-split test"
)
_NOTES = {
    "R@": "R@k: share of a query's relevant targets among the first k",
    "S@": "S@k: share of queries with a relevant target among the first k",
    "A@": "A@k: share of queries with an answer (as DPR matches it) in one of the first k targets",
    "found": "found: an answer occurs in a target that the reader saw",
    "seeds": "±: standard deviation over the seeds",
    "train R@1": "train R@1: recall@1 on a sample of the training queries",
    "seen": "seen: share of the true top 10 that the searched cache held at the end",
    "overlap": "overlap: share of the true top 10 of training queries, over the whole corpus, that "
    "the searched view held at the end",
    "sampled": "sampled: targets encoded to fit something, not to refresh",
}


@final
@dataclass(frozen=True)
class Table:
    """Rows with their cells, ready to be shown; columns without a value are left out."""

    rows: Sequence[Group]
    columns: Mapping[str, Sequence[str]]  # by its name, a column has a cell for each row
    notes: Sequence[str]  # what the columns mean
    # Before training, by name and column: the model as it was named, and as it was trained from.
    starts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def name_of(metric: str) -> str:
    """Name a metric, of a further split with that split's name.

    Example:
        >>> name_of("recall@5"), name_of("test:answer_recall@20"), name_of("ndcg@10")
        ('R@5', 'test A@20', 'nDCG@10')
    """
    split, _, own = metric.rpartition(":")
    kind, _, k = own.partition("@")
    return f"{split} {SHOWN.get(own) or f'{_KINDS.get(kind, kind)}@{k}'}".strip()


def choose_metrics(rows: Sequence[Group], usual: Iterable[str]) -> list[str]:
    """Choose the metrics that a table shows, of those that were measured.

    Of several splits, or of one that has only answers, they are the paper's columns: each split by
    its gold targets if it has any, otherwise by answers. Otherwise they are the usual ones, success
    where it is not the same as recall, and recall by answer.
    """
    runs = [run.metrics for row in rows for run in row.runs]
    every = {metric for metrics in runs for metric in metrics}
    chosen = [metric for metric in usual if metric in every]
    if "exact_match" in every:
        return chosen
    splits = sorted({metric[: metric.rfind(":") + 1] for metric in every})

    def differ(split: str) -> bool:
        names = [(f"{split}success@{k}", f"{split}recall@{k}") for k in _CUTOFFS]
        return any(run.get(a) != run.get(b) for run in runs for a, b in names if a in run)

    if len(splits) > 1 or ("answer_recall@1" in every and "recall@1" not in every):
        kinds = {s: "success" if differ(s) else "recall" for s in splits}
        kinds |= {s: "answer_recall" for s in splits if f"{s}recall@1" not in every}
        return [f"{split}{kind}@{k}" for split, kind in kinds.items() for k in _CUTOFFS]
    more = [f"success@{k}" for k in (1, 10, 100)] if differ("") else []
    more += [f"answer_recall@{k}" for k in (1, 20, 100)]
    return [*chosen, *(metric for metric in more if metric in every)]


def results(rows: Sequence[Group], metrics: Sequence[str], costs: Sequence[str]) -> Table:
    """Write what came out, in percent, and what it cost."""
    columns: dict[str, list[str]] = {}
    if any(len(row.runs) > 1 for row in rows):
        columns["seeds"] = [str(len(row.runs)) for row in rows]
    names = _names(rows, metrics)
    for metric, name in names.items():
        columns[name] = [percent(v) if (v := row.metric(metric)) else "" for row in rows]
    for name in costs:
        value, write = _COSTS[name]
        means = [row.average(value) for row in rows]
        if name != "sampled" or any(means):  # most strategies sample nothing
            columns[name] = ["" if mean is None else write(mean) for mean in means]
    columns = _filled(columns)
    kinds = {"S@", "A@"} & {name.rpartition(" ")[2][:2] for name in columns}
    known = {*columns, *kinds, *(["R@"] if kinds else [])}
    notes = [_NOTES[name] for name in _NOTES if name in known]
    if any(run.split == "train" for row in rows for run in row.runs):
        notes.insert(0, ON_TRAIN)
    return Table(rows, columns, notes, _starts(rows, names))


def _names(rows: Sequence[Group], metrics: Sequence[str]) -> dict[str, str]:
    """Name the columns of some metrics; where there are several splits, each with its split."""
    several = any(":" in metric for metric in metrics)
    first = f"{rows[0].runs[0].split}:" if several else ""
    return {m: name_of(m if ":" in m else f"{first}{m}") for m in metrics}


def _starts(rows: Sequence[Group], names: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Write the metrics before training: of the whole model first, if a part of it was trained."""
    trained = [run for row in rows if row.trained for run in row.runs]
    full = [run.full_metrics for run in trained if run.full_metrics]
    cut, initial = "before, cut" if full else "before", [run.initial_metrics for run in trained]
    found: dict[str, dict[str, str]] = {}
    for start, measured in (("before, whole model", full), (cut, initial)):
        for metric, name in names.items():
            if values := [metrics[metric] for metrics in measured if metric in metrics]:
                found.setdefault(start, {})[name] = percent([fmean(values)])
    return found


def comparison(rows: Sequence[Group], summary: JsonObject) -> Table:
    """Write the gaps that are recovered and the p values; no columns, if a summary has none."""
    metric = headline(rows)
    gaps = {
        f"gap at {name_of(m)}": [gap_text(gap_recovered(summary, row.strategy, m)) for row in rows]
        for m in (_GAPS if not metric.startswith("answer") else _ANSWER_GAPS)
    }
    tests = {
        f"p vs {reference}": [
            p_text(p_value(summary, reference, row.strategy, metric)) for row in rows
        ]
        for reference in references(summary)
    }
    gaps, tests, notes = _filled(gaps), _filled(tests), []
    seeds, note = _over_seeds(rows, summary, metric)
    if gaps:
        rule = "where a strategy stands from stale (0%) to exhaustive (100%), with its 95% interval"
        notes.append(f"gap: {rule}")
    if tests:
        notes.append(note)
        test = f"p: of a paired t-test of {spoken(metric)} over the queries"
        notes.append(f"{test}: it speaks of these trained models, not of other seeds")
    if any("*" in cell for cells in gaps.values() for cell in cells):
        notes.append("*: of one seed: how results vary from seed to seed is not in the interval")
    return Table(rows, gaps | seeds | tests, notes)


def _over_seeds(
    rows: Sequence[Group], summary: JsonObject, metric: str
) -> tuple[dict[str, list[str]], str]:
    """Write how far each strategy is from the references over seeds, and what that means."""
    columns, known = {}, False
    for reference in references(summary):
        others = [row.strategy != reference for row in rows]
        found = [difference(summary, reference, row.strategy, metric) for row in rows]
        known = known or any(found)
        cells = [
            difference_text(d) if other else "" for d, other in zip(found, others, strict=True)
        ]
        columns[f"{name_of(metric)} vs {reference}"] = cells
    if not known:
        rule = "a difference between methods needs at least two seeds of each"
        return {}, f"there is no interval over seeds: {rule}"
    rule = "difference in points, with its 95% t interval over seeds, paired"
    return columns, f"{name_of(metric)} vs: {rule}"


def _filled(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: cells for name, cells in columns.items() if any(cells)}
