"""The results as HTML tables: a row a strategy, best first, numbers that line up."""

import re
from collections.abc import Container, Sequence
from dataclasses import replace

from unstale.report.columns import SHOWN, Table, comparison, results
from unstale.report.entries import Group, ranked
from unstale.report.escape import escape
from unstale.results import JsonObject

_COSTS = ("train R@1", "seen", "re-embedded", "sampled", "steps/s", "training")
_NOTHING = '<td class="none">&ndash;</td>'


def results_table(groups: Sequence[Group]) -> str:
    """Build the table of what came out and what it cost; the best of each metric is bold."""
    rows = ranked(groups)
    metrics = [m for m in SHOWN if any(g.metric(m) for g in groups)]
    highest = {m: max(row.mean(m) or 0.0 for row in rows) - 1e-12 for m in metrics}
    best = {
        (SHOWN[m], row.name)
        for m in metrics
        for row in rows
        if len(rows) > 1 and (row.mean(m) or 0.0) >= highest[m]
    }
    table = results(rows, metrics, _COSTS)
    return _table("results", replace(table, notes=["Metrics in percent", *table.notes]), best)


def comparison_table(groups: Sequence[Group], summary: JsonObject) -> str:
    """Build the table of what the differences mean, if the results say so."""
    table = comparison(ranked(groups), summary)
    return _table("comparison", table) if table.columns else ""


def _table(kind: str, table: Table, best: Container[tuple[str, str]] = ()) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = _before(table) if table.before else ""
    for i, row in enumerate(table.rows):
        columns = table.columns.items()
        cells = "".join(_cell(c[i], bold=(head, row.name) in best) for head, c in columns)
        name = f'<span class="swatch {row.tone}"></span>{escape(row.name)}'
        body += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    corner = '<th scope="col"><span class="hidden">strategy</span></th>'
    notes = escape("; ".join(table.notes))
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{corner}{head}</tr>'
        f'</thead><tbody>{body}</tbody></table></div><p class="note">{notes}.</p>'
    )


def _before(table: Table) -> str:
    # A spread that is not seen, so that the means line up.
    room = ' <span class="spread blank" aria-hidden="true">±&nbsp;0.0</span>'
    room = room if "seeds" in table.columns else ""
    cells = (f"{start}{room}" if (start := table.before.get(c)) else "" for c in table.columns)
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="before"><th scope="row">before training</th>{row}</tr>'


def _cell(text: str, *, bold: bool) -> str:
    """Write a number, what follows ± or stands in brackets smaller."""
    if not text:
        return _NOTHING
    value, *rest = re.split(r" (?=[±\[])", text.replace("-", "\u2212"))  # the sign of a minus
    shown = f"<strong>{escape(value)}</strong>" if bold else escape(value)
    around = "".join(f' <span class="spread">{part}</span>' for part in rest)
    return f"<td>{shown}{around}</td>"
