"""The results as HTML tables: a row a strategy, best first, numbers that line up."""

import re
from collections.abc import Sequence
from dataclasses import replace

from unstale.report.columns import SHOWN, Table, choose_metrics, comparison, results
from unstale.report.entries import Group, ranked
from unstale.report.escape import escape
from unstale.results import JsonObject

_COSTS = ("train R@1", "seen", "overlap", "re-embedded", "sampled", "steps/s", "training")
_NOTHING = '<td class="none">&ndash;</td>'


def results_table(groups: Sequence[Group]) -> str:
    """Build the table of what came out and what it cost, best first."""
    rows = ranked(groups)
    metrics = choose_metrics(groups, SHOWN)
    table = results(rows, metrics, _COSTS)
    return _table("results", replace(table, notes=["Metrics in percent", *table.notes]))


def comparison_table(groups: Sequence[Group], summary: JsonObject) -> str:
    """Build the table of what the differences mean, if the results say so."""
    table = comparison(ranked(groups), summary)
    return _table("comparison", table) if table.columns else ""


def _table(kind: str, table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = ""
    for start, known in table.starts.items():
        cells = "".join(f"<td>{known.get(name, '')}</td>" for name in table.columns)
        name = start.replace("before", "before training")
        body += f'<tr class="before"><th scope="row">{name}</th>{cells}</tr>'
    for i, row in enumerate(table.rows):
        cells = "".join(_cell(column[i]) for column in table.columns.values())
        name = f'<span class="swatch {row.tone}"></span>{escape(row.name)}'
        body += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    corner = '<th scope="col"><span class="hidden">strategy</span></th>'
    notes = escape("; ".join(table.notes))
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{corner}{head}</tr>'
        f'</thead><tbody>{body}</tbody></table></div><p class="note">{notes}.</p>'
    )


def _cell(text: str) -> str:
    """Write a number, what follows ± or stands in brackets smaller."""
    if not text:
        return _NOTHING
    value, *rest = re.split(r" (?=[±\[])", text.replace("-", "\u2212"))  # the sign of a minus
    around = "".join(f' <span class="spread">{part}</span>' for part in rest)
    return f"<td>{escape(value)}{around}</td>"
