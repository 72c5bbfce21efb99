"""Show single cases: what was mined for some queries, and what was answered to some questions."""

from collections.abc import Sequence

from unstale.report.entries import Group, corrected_group
from unstale.report.escape import escape
from unstale.results import ExampleQuery, ListedTarget


def examples_html(groups: Sequence[Group]) -> str:
    """Show the examples of one run, the first that has both views; "" if none has any."""
    found = [(g, run) for g in groups for run in g.runs if run.examples]
    if not found:
        return ""
    main = corrected_group(groups)
    both = [pair for pair in found if any(e.corrected for e in pair[1].examples)]
    group, run = min(both or found, key=lambda pair: pair[0] is not main)
    shown = "".join(_example(e) for e in run.examples)
    seed = f", seed {run.seed}" if len(group.runs) > 1 else ""
    return (
        f'<p class="note">From the {escape(group.name)} run{seed}, with its encoder as it was at '
        f'the end. <span class="hit">fresh rank 1</span> is the target that this encoder ranks '
        f"first; it is green where it is among the nearest. The rank does not tell whether a "
        f"target is a right answer.</p>{shown}"
    )


def answers_html(groups: Sequence[Group]) -> str:
    """Show the answers of one run, the paper's method if there is one; "" if none has any."""
    found = [(g, run, run.answers) for g in groups for run in g.runs if run.answers]
    if not found:
        return ""
    main = corrected_group(groups)
    group, run, answers = min(found, key=lambda triple: triple[0] is not main)
    rows = "".join(
        f'<tr><th scope="row">{escape(a.question)}</th><td>{escape(a.before or "(no answer)")}</td>'
        f"<td>{escape(a.answer or '(no answer)')}</td><td>{escape(' / '.join(a.gold))}</td>"
        f"<td>{''.join(map(_target, a.read or ()))}</td></tr>"
        for a in answers
    )
    return (
        f'<p class="note">From the {escape(group.name)} run, {escape(run.split)} split.</p>'
        '<div class="scroll"><table class="answers" dir="auto"><thead><tr><th>question</th>'
        "<th>before training</th><th>after</th><th>expected</th><th>read first, after</th></tr>"
        f"</thead><tbody>{rows}</tbody></table></div>"
    )


def _example(example: ExampleQuery) -> str:
    true, columns = [m.row for m in example.true], ""
    for kind, title, note, mined in (
        ("true", "Fresh", "the nearest by the encoder as it is now", example.true),
        ("stale", "Stale", "from the cache as it is", example.stale),
        ("corrected", "Corrected", "from the cache, corrected", example.corrected),
    ):
        if mined:
            hits = sum(m.row in true for m in mined)
            items = "".join(_item(m, true) for m in mined)
            columns += f'<section class="{kind}"><h4>{title}</h4><p class="note">{note}: {hits} '
            columns += f"of the {len(true)} nearest</p><ol>{items}</ol></section>"
    label = ""
    if example.label is not None:
        label = f'<div class="label"><h4>Label</h4>{_target(example.label.text)}</div>'
    return (
        f'<article class="example"><h3 dir="auto">{escape(example.query)}</h3>'
        f'{label}<div class="columns">{columns}</div></article>'
    )


def _item(mined: ListedTarget, true: Sequence[int]) -> str:
    hit = mined.row in true
    place, kind = (true.index(mined.row) + 1, "hit") if hit else (mined.true_rank, "miss")
    badge = "" if place is None else f'<span class="{kind}">fresh rank {place:,}</span>'
    return f'<li class="is-{kind}"><div class="facts">{badge}</div>{_target(mined.text)}</li>'


def _target(text: str) -> str:
    """Show the beginning, and the whole on a click, where there is more."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    first = lines[0] if lines else "(empty)"
    if len(lines) <= 1 and len(first) <= 90:
        return f'<div class="target" dir="auto">{escape(first)}</div>'
    return (
        f'<details class="target"><summary><span dir="auto">{escape(first)}</span></summary>'
        f'<pre dir="auto">{escape(text)}</pre></details>'
    )
