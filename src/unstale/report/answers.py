"""Show answers: some questions, what the reader said, and what was expected."""

from collections.abc import Sequence

from unstale.data.answers import exact_match
from unstale.report.entries import Answer, Group
from unstale.report.escape import escape


def answers_html(groups: Sequence[Group]) -> str:
    """Show the answers of one run, the paper's method if there is one; "" if none has any."""
    found = [(g, e) for g in groups for e in g.entries if e.answers]
    if not found:
        return ""
    group, entry = min(found, key=lambda pair: pair[0].strategy != "corrected")
    rows = "".join(_row(answer) for answer in entry.answers)
    return (
        f'<p class="note">From the {escape(group.name)} run, {escape(entry.split)} split.</p>'
        '<div class="scroll"><table class="answers"><thead><tr><th>question</th><th>answer</th>'
        f"<th>expected</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(answer: Answer) -> str:
    right = exact_match(answer.said, answer.gold)
    mark = '<span class="hit">right</span>' if right else '<span class="miss">wrong</span>'
    said = escape(answer.said) if answer.said else '<span class="none">no answer</span>'
    gold = escape(" / ".join(answer.gold))
    return (
        f'<tr><th scope="row" dir="auto">{escape(answer.question)}</th>'
        f'<td dir="auto">{said} {mark}</td><td dir="auto">{gold}</td></tr>'
    )
