"""From the cells of a grid to its rows, and from those to table.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, final

from unstale.evaluation.significance import SeedDifference
from unstale.files import atomic_file
from unstale.report.markdown import markdown_table
from unstale.report.numbers import difference_text, gap_text, p_text, percent
from unstale.report.summary import RecoveredGap, difference, gap_recovered, summarise
from unstale.report.table import TERMINAL
from unstale.results import RunResult
from unstale.training.cells import Finished

TESTED = "recall@10"  # the metric of p values and differences in tables
GAPS = ("recall@1", "recall@10", "recall@100")


@final
@dataclass(frozen=True)
class Paper:
    """A table of the paper, as printed there."""

    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def make_rows(
    variants: Mapping[str, Mapping[str, Any]],
    done: Mapping[str, Mapping[int, Finished]],
    references: Sequence[str],
) -> list[dict[str, Any]]:
    """Summarise the cells of one start, by variant and seed: a row a variant."""
    values = {v: {seed: cell.values for seed, cell in some.items()} for v, some in done.items()}
    summary = summarise(values, references)
    return [
        _row(label, settings, [cell.entry for cell in done[label].values()], summary)
        for label, settings in variants.items()
    ]


def _row(
    label: str,
    settings: Mapping[str, Any],
    entries: Sequence[RunResult],
    summary: dict[str, Any],
) -> dict[str, Any]:
    """Gather what the runs of a variant, one a seed, measured and cost."""
    metrics = {name: [e.metrics[name] for e in entries] for name in entries[0].metrics}
    p_values = {r: found.get(label, {}).get(TESTED) for r, found in summary["p_value"].items()}
    differences = {
        r: {m: difference(summary, r, label, m) for m in metrics}
        for r in summary["p_value"]
        if r != label
    }
    readings = [r for e in entries if (r := _last_reading(e)) is not None]
    row: dict[str, Any] = {
        "variant": label,
        "settings": dict(settings),
        "initial_metrics": dict(entries[0].initial_metrics),
        "metrics": metrics,
        "gap_recovered": {
            m: g._asdict() for m in GAPS if (g := gap_recovered(summary, label, m)) is not None
        },
        "p_value": p_values,
        "difference": {
            r: {m: d and d._asdict() for m, d in found.items()} for r, found in differences.items()
        },
        "overlap": _overlap(entries),
        "seen": fmean(r[0] for r in readings) if readings else None,
        "drift": fmean(r[1] for r in readings) if readings else None,
        "targets_trained": fmean(e.targets_trained or 0 for e in entries),
        "targets_reembedded": fmean(e.targets_reembedded or 0 for e in entries),
        "targets_sampled": fmean(e.targets_sampled or 0 for e in entries),
        "steps": entries[0].steps,
        "steps_per_second": fmean(e.steps_per_second or 0.0 for e in entries),
        "training_seconds": fmean(e.seconds["training"] for e in entries),
    }
    shown = ", ".join(f"{name} {percent(metrics[m])}" for m, name in TERMINAL.items())
    row["text"] = f"{shown}; {row['steps_per_second']:.2f} steps/s"
    return row


def _overlap(entries: Sequence[RunResult]) -> dict[str, float]:
    """Average what each view held of the true top 10 at the end, over the whole corpus."""
    known = [e.overlap for e in entries if e.overlap]
    return {view: fmean(o[view] for o in known) for view in (known[0] if known else ())}


def _last_reading(entry: RunResult) -> tuple[float, float] | None:
    """Return how much of the true top 10 the searched view held, and how far targets drifted."""
    if not entry.freshness:
        return None
    last = entry.freshness[-1]
    corrected = last["overlap_corrected"]
    seen = last["overlap_stale"] if corrected is None else corrected
    return seen, 1 - last["cosine_stale"]


def write_tables(
    path: Path,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    paper: Paper | None = None,
    kind: str = "Start",
) -> None:
    """Write a table for each start, or whatever else the tables are for, and the paper's."""
    parts = []
    for name, rows in tables.items():
        if len(tables) > 1:
            parts.append(f"{kind}: {name}")
        parts.append(grid_table(rows))
    parts += _notes([row for rows in tables.values() for row in rows])
    if paper is not None:
        parts += [f"The paper, {paper.about}:", markdown_table(paper.columns, paper.rows)]
    with atomic_file(path) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", "utf-8")


def grid_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write the rows of one start, in percent; columns without a value are left out."""
    before = rows[0]["initial_metrics"]
    columns: dict[str, list[str]] = {"": ["before", *(row["variant"] for row in rows)]}
    for metric, name in TERMINAL.items():
        columns[name] = [percent(v) for v in ([before[metric]], *_each(rows, "metrics", metric))]
    for metric in GAPS:
        gaps = [g and RecoveredGap(**g) for g in _each(rows, "gap_recovered", metric)]
        columns[f"gap at {TERMINAL[metric]}"] = ["", *map(gap_text, gaps)]
    for reference in rows[0]["p_value"]:
        if any(_difference(row, reference) for row in rows):
            cells = [_difference_text(row, reference) for row in rows]
            columns[f"{TERMINAL[TESTED]} vs {reference}"] = ["", *cells]
        columns[f"p vs {reference}"] = ["", *map(p_text, _each(rows, "p_value", reference))]
    for name in ("drift", "seen"):
        values = [row[name] for row in rows]
        columns[name] = ["", *("" if v is None else f"{100 * v:.0f}%" for v in values)]
    for view in ("stale", "searched"):
        held = _each(rows, "overlap", view)
        columns[f"{view} holds"] = ["", *("" if v is None else f"{100 * v:.1f}%" for v in held)]
    columns["re-embedded"] = ["", *(f"{row['targets_reembedded']:,.0f}" for row in rows)]
    if any(row["targets_sampled"] for row in rows):
        columns["sampled"] = ["", *(f"{row['targets_sampled']:,.0f}" for row in rows)]
    if len({row["steps"] for row in rows}) > 1:
        columns["steps"] = ["", *(str(row["steps"]) for row in rows)]
    columns["steps/s"] = ["", *(f"{row['steps_per_second']:.2f}" for row in rows)]
    columns["training"] = ["", *(f"{row['training_seconds']:.0f} s" for row in rows)]
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    return markdown_table(list(kept), list(zip(*kept.values(), strict=True)))


def _notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what intervals and tests are about."""
    notes = []
    if any(row["gap_recovered"] for row in rows):
        notes.append(
            "gap: the share of the way from stale to exhaustive, with its 95% interval over seeds "
            "(Fieller's); a star marks one seed, where the interval is over queries alone."
        )
    if any(row["p_value"] for row in rows):
        name, seeds = TERMINAL[TESTED], min(len(row["metrics"][TESTED]) for row in rows)
        rule = (
            f"{name} vs: the difference in points, with its 95% t interval over seeds, paired"
            if seeds > 1
            else "There is no interval over seeds: a variant has one seed only"
        )
        notes.append(f"{rule}. p: a paired t-test of {name} over the queries, seeds averaged.")
    if any(row["overlap"] for row in rows):
        notes.append(
            "stale holds, searched holds: the share of the true top 10 of training queries, over "
            "the whole corpus, that the cache held at the end as it was and as it was searched."
        )
    return notes


def _difference(row: Mapping[str, Any], reference: str) -> SeedDifference | None:
    found = row["difference"].get(reference, {}).get(TESTED)
    return found and SeedDifference(**found)


def _difference_text(row: Mapping[str, Any], reference: str) -> str:
    own = row["variant"] == reference
    return "" if own else difference_text(_difference(row, reference))


def _each(rows: Sequence[Mapping[str, Any]], key: str, name: str) -> list[Any]:
    return [row[key].get(name) for row in rows]
