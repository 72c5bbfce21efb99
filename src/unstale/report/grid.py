"""The results as HTML tables: a row a strategy, best first, numbers that line up."""

import re
from collections.abc import Container, Sequence

from unstale.report.columns import (
    SHOWN,
    Columns,
    before,
    comparison_columns,
    comparison_notes,
    result_columns,
    result_notes,
)
from unstale.report.entries import Group, ranked
from unstale.report.escape import escape
from unstale.results import JsonObject

_COSTS = ("seen", "re-embedded", "sampled", "steps/s", "training")
_NOTHING = '<td class="none">&ndash;</td>'


def results_table(groups: Sequence[Group]) -> str:
    """Build the table of what came out and what it cost; the best of each metric is bold."""
    rows = ranked(groups)
    metrics = [m for m in SHOWN if any(g.metric(m) for g in groups)]
    columns = result_columns(rows, metrics, _COSTS)
    best = {
        (SHOWN[m], i)
        for m in metrics
        for i, row in enumerate(rows)
        if len(rows) > 1 and (row.mean(m) or 0.0) >= max(g.mean(m) or 0.0 for g in rows) - 1e-12
    }
    first = ""
    if any(g.trained for g in groups):
        # A spread that is not seen, so that the means line up.
        room = ' <span class="spread blank" aria-hidden="true">±&nbsp;0.0</span>'
        start = dict(zip((SHOWN[m] for m in metrics), before(groups, metrics), strict=True))
        for head in columns:
            cell = start.get(head)
            shown = f"<td>{cell}{room if 'seeds' in columns else ''}</td>" if cell else _NOTHING
            first += "<td></td>" if cell is None else shown
        first = f'<tr class="before"><th scope="row">before training</th>{first}</tr>'
    return _table(
        "results", rows, columns, ["Metrics in percent", *result_notes(columns)], first, best
    )


def comparison_table(groups: Sequence[Group], summary: JsonObject) -> str:
    """Build the table of what the differences mean, if the results say so."""
    rows = ranked(groups)
    columns = comparison_columns(rows, summary)
    return _table("comparison", rows, columns, comparison_notes(rows, columns)) if columns else ""


def _table(
    kind: str,
    rows: Sequence[Group],
    columns: Columns,
    notes: Sequence[str],
    first: str = "",
    best: Container[tuple[str, int]] = (),
) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = first
    for i, row in enumerate(rows):
        cells = "".join(_cell(c[i], bold=(name, i) in best) for name, c in columns.items())
        name = f'<span class="swatch {row.tone}"></span>{escape(row.name)}'
        body += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    corner = '<th scope="col"><span class="hidden">strategy</span></th>'
    said = escape("; ".join(notes))
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{corner}{head}</tr>'
        f'</thead><tbody>{body}</tbody></table></div><p class="note">{said}.</p>'
    )


def _cell(text: str, *, bold: bool) -> str:
    """Write a number, what follows ± or stands in brackets smaller."""
    if not text:
        return _NOTHING
    value, *rest = re.split(r" (?=[±\[])", text.replace("-", "\u2212"))  # the sign of a minus
    shown = f"<strong>{escape(value)}</strong>" if bold else escape(value)
    around = "".join(f' <span class="spread">{part}</span>' for part in rest)
    return f"<td>{shown}{around}</td>"
