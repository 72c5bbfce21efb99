"""The page: a query in, two rankings out, and for a rag run the answer with its sources."""

from dataclasses import dataclass
from typing import final

from unstale import __version__
from unstale.data.dataset import RetrievalDataset
from unstale.rag.ask import Asker
from unstale.report.document import document, style_sheet
from unstale.report.escape import escape
from unstale.serve.sides import Hit, Side, compare
from unstale.shown import shortened

TEXT = 600  # characters of a target to show
LONGEST = 2000  # characters of a query


@final
@dataclass(frozen=True)
class Page:
    """Everything that is shown of a run; call it with a query, "" for none."""

    name: str  # of the run
    dataset: RetrievalDataset
    before: Side  # the encoder as training found it
    after: Side
    asker: Asker | None = None  # of a rag run
    k: int = 10  # targets on each side

    def __call__(self, query: str) -> str:
        """Return the whole page as HTML."""
        query = query.strip()[:LONGEST]
        found = self._answer(query) + self._sides(query) if query else ""
        targets = f"{len(self.dataset.targets):,} targets of {escape(self.dataset.name)}"
        return document(
            head='<link rel="icon" href="data:,">',
            title=f"{escape(query[:60])} - unstale" if query else f"unstale: {escape(self.name)}",
            style=style_sheet() + style_sheet("unstale.serve"),
            heading=escape(self.name),
            body=self._form(query) + found,
            footer=f"unstale {__version__}, {targets}.",
        )

    def _form(self, query: str) -> str:
        label = "Ask a question" if self.asker else "Type a query"
        return (
            f'<form action="/" method="get" role="search"><label for="q">{label}</label>'
            f'<input id="q" name="q" type="search" value="{escape(query)}" autocomplete="off" '
            f'maxlength="{LONGEST}" autofocus><button>Search</button></form>'
        )

    def _answer(self, query: str) -> str:
        if self.asker is None:
            return ""
        said = self.asker(query)
        text = escape(said.text) if said.text else '<span class="none">no answer</span>'
        sources = '<p class="note">From memory: this run retrieves nothing.</p>'
        if heads := [f"<b>{p:.1%}</b>" for p in said.probabilities.tolist()]:
            summary = f"<summary>Read from {len(heads)} targets, with P(y|x)</summary>"
            sources = f"<details>{summary}{self._list(said.rows.tolist(), heads)}</details>"
        answer = f'<h2>Answer</h2><p class="said">{text}</p>'
        return f'<section class="answer">{answer}{sources}</section>'

    def _sides(self, query: str) -> str:
        found = compare(self.before, self.after, query, self.k)
        sides = ""
        for name, verb, hits in zip(("Before", "After"), ("goes to", "was"), found, strict=True):
            heads = [
                f'<b>{hit.rank}</b> <span class="score">{hit.score:.3f}</span> {_moved(hit, verb)}'
                for hit in hits
            ]
            listed = self._list([hit.row for hit in hits], heads)
            sides += f"<div><h2>{name} training</h2>{listed}</div>"
        return f'<section class="sides">{sides}</section>'

    def _list(self, rows: list[int], heads: list[str]) -> str:
        """List targets, each under a line that begins with its head."""
        ids, texts = self.dataset.target_ids.take(rows), self.dataset.targets.take(rows)
        items = "".join(
            f'<li><p class="where">{head} <code>{escape(id)}</code></p>'
            f"<p>{escape(shortened(text, TEXT))}</p></li>"
            for head, id, text in zip(heads, ids, texts, strict=True)
        )
        return f'<ol class="hits">{items}</ol>'


def _moved(hit: Hit, verb: str) -> str:
    """Say where the other side has a target: an arrow up if training brought it nearer.

    Example:
        >>> _moved(Hit(row=7, rank=1, score=0.5, other_rank=4), "was")
        '<span class="up">▲ was 4</span>'
    """
    if hit.rank == hit.other_rank:
        return '<span class="same">= stays</span>'
    nearer = (hit.other_rank > hit.rank) == (verb == "was")
    kind, arrow = ("up", "▲") if nearer else ("down", "▼")
    return f'<span class="{kind}">{arrow} {verb} {hit.other_rank:,}</span>'
