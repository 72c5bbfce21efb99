"""Show the negatives: for some queries, the true top-k beside what stale and corrected chose."""

import re
from collections.abc import Sequence

from unstale.report.entries import Group
from unstale.report.escape import escape
from unstale.results import Example, Mined, RunResult

# After a dot or a slash, and after an underscore inside a name.
_BREAKS = re.compile(r"(?<=[./])|(?<=[A-Za-z0-9]_)(?=[A-Za-z])")


def examples_html(groups: Sequence[Group]) -> str:
    """Show the examples of one run, the first of the most telling strategy; "" if none has any."""
    found = [(g, e) for g in groups for e in g.entries if e.examples]
    if not found:
        return ""
    group, entry = min(found, key=lambda pair: _rank(*pair))
    shown = "".join(_example(e) for e in entry.examples)
    seed = f", seed {entry.seed}" if len(group.entries) > 1 else ""
    return (
        f'<p class="note">From the {escape(group.name)} run{seed}, with its encoder as it was at '
        f'the end. A green <span class="hit">true</span> marks a target that is among the true '
        f"nearest; the number is its place in the true ranking. Scores order a column; they do not "
        f"compare across columns.</p>{shown}"
    )


def _rank(group: Group, entry: RunResult) -> tuple[bool, bool]:
    """Prefer runs that have both views, and among those the paper's method."""
    return not any(e.corrected for e in entry.examples), group.strategy != "corrected"


def _example(example: Example) -> str:
    true = [m.row for m in example.true]
    columns = _column("True nearest", "by the encoder as it is now", example.true, true)
    for title, note, mined in (
        ("Stale", "from the cache as it is", example.stale),
        ("Corrected", "from the cache, corrected", example.corrected),
    ):
        if mined:
            hits = len({m.row for m in mined} & set(true))
            columns += _column(title, f"{note}: {hits} of {len(true)} true", mined, true)
    label = ""
    if example.label is not None:
        label = f'<div class="label"><h4>Label</h4>{_target(example.label.text)}</div>'
    return (
        f'<article class="example"><h3 dir="auto">{escape(example.query)}</h3>'
        f'{label}<div class="columns">{columns}</div></article>'
    )


def _column(title: str, note: str, mined: Sequence[Mined], true: Sequence[int]) -> str:
    items = "".join(_item(m, true) for m in mined)
    return (
        f'<section class="{title.split()[0].lower()}"><h4>{title}</h4>'
        f'<p class="note">{note}</p><ol>{items}</ol></section>'
    )


def _item(mined: Mined, true: Sequence[int]) -> str:
    hit = mined.row in true
    place = true.index(mined.row) + 1 if hit else mined.true_rank
    badge = f'<span class="hit">true {place}</span>' if hit else ""
    if not hit and place is not None:
        badge = f'<span class="miss">true {place:,}</span>'
    score = "" if mined.score is None else f'<span class="score">{mined.score:.3f}</span>'
    kind = "is-hit" if hit else "is-miss"
    return f'<li class="{kind}"><div class="facts">{badge}{score}</div>{_target(mined.text)}</li>'


def _target(text: str) -> str:
    """Show the beginning, and the whole on a click, where there is more."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    first = lines[0] if lines else "(empty)"
    if len(lines) <= 1 and len(first) <= 90:
        return f'<div class="target" dir="auto">{_breakable(first)}</div>'
    return (
        f'<details class="target"><summary><span dir="auto">{_breakable(first)}</span></summary>'
        f'<pre dir="auto">{escape(text)}</pre></details>'
    )


def _breakable(text: str) -> str:
    """Let long names break where a reader would break them."""
    return "<wbr>".join(escape(part) for part in re.split(_BREAKS, text))
