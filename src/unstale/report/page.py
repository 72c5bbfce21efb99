"""One HTML page for a run that opens anywhere, offline: no script, nothing loaded."""

from pathlib import Path
from typing import Any

from unstale import __version__
from unstale.files import atomic_file
from unstale.report.document import document, style_sheet
from unstale.report.entries import Group, headline, read_groups, spoken
from unstale.report.escape import escape, plain
from unstale.report.figures import curves, freshness, tradeoff
from unstale.report.grid import comparison_table, results_table
from unstale.report.shown import answers_html, examples_html
from unstale.report.words import key_figures, sentences
from unstale.results import RESULTS, JsonObject, read_results

PAGE = "report.html"


def write_page(folder: Path, settings: dict[str, Any] | None = None) -> Path:
    """Write `folder/report.html` from `folder/results.json`, and return its path.

    Args:
        folder: A run folder.
        settings: The run's settings, if known; all of them are shown as its recipe.
    """
    page = build_page(read_results(folder), settings or {}, source=folder / RESULTS)
    with atomic_file(folder / PAGE) as temporary:
        temporary.write_text(page, "utf-8")
    return folder / PAGE


def build_page(results: JsonObject, settings: JsonObject, *, source: object = RESULTS) -> str:
    """Build the page; `source` names the results in errors."""
    groups = read_groups(results, source)
    data, summary = (_object(results.get(key)) for key in ("data", "summary"))
    name = str(data.get("name") or "unnamed data")
    parts = [
        _summary(groups, data, summary, settings),
        _section("Results", "", results_table(groups) + comparison_table(groups, summary)),
        _section(*_tradeoff_words(groups), tradeoff(groups)),
        _freshness(groups),
        _curves(groups),
        _section(
            "What is mined",
            "Hard negatives are the targets that the encoder, as it is now, confuses with the "
            "label. A stale cache offers what an older encoder confused.",
            examples_html(groups),
        ),
        _section("What it answers", "", answers_html(groups)),
        _recipe(settings),
    ]
    # The policy forbids scripts and anything from elsewhere, whatever a text may contain.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return document(
        head=f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        title=f"unstale: {plain(name)}",
        style=style_sheet(),
        heading=escape(name),
        body="\n".join(p for p in parts if p),
        footer=f"Made by unstale {__version__} from {RESULTS}.",
    )


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _section(title: str, about: str, content: str) -> str:
    """Wrap a part of the page; nothing, if it has no content."""
    if not content:
        return ""
    about = f'<p class="about">{about}</p>' if about else ""
    return f"<section><h2>{title}</h2>{about}{content}</section>"


def _summary(
    groups: list[Group], data: JsonObject, summary: JsonObject, settings: JsonObject
) -> str:
    figures = "".join(
        f"<div><dt>{caption}</dt><dd>{value}</dd></div>"
        for value, caption in key_figures(groups, summary)
    )
    said = "".join(f"<p>{s}</p>" for s in sentences(groups, data, summary, settings))
    figures = f'<dl class="figures">{figures}</dl>' if figures else ""
    return f'<section class="summary">{figures}{said}</section>'


def _tradeoff_words(groups: list[Group]) -> tuple[str, str]:
    if any(run.targets_reembedded for g in groups for run in g.runs):
        return (
            "What re-embedding buys",
            "Up is better, left is cheaper. The axis is logarithmic beyond its start, so that 0 "
            "has a place on it.",
        )
    return f"{spoken(headline(groups))} by strategy", ""


def _freshness(groups: list[Group]) -> str:
    overlap, kl = freshness(groups, "overlap"), freshness(groups, "kl")
    if not overlap and not kl:
        return ""
    about = (
        "How well a strategy's cache stands for the encoder as it is: the share of the true top 10 "
        "over the whole corpus that it finds for a fixed probe of training queries, estimated from "
        "the few targets that the freshness meter encodes, and the KL divergence over these. The "
        "stale line is the cache as it was last embedded; the corrected line is the same cache "
        "seen through what the strategy learnt."
    )
    blind = [
        escape(g.name) for g in groups if g.trained and not any(run.freshness for run in g.runs)
    ]
    if blind:
        about += f" Not drawn, since no embedding of every target is kept: {', '.join(blind)}."
    return _section("Freshness", about, _switch({"Top 10 found": overlap, "KL divergence": kl}))


def _curves(groups: list[Group]) -> str:
    charts = {f"against {x}": curves(groups, x) for x in ("seconds", "steps")}
    about = "Means over the seeds. The clock counts training, refreshes included, not measuring."
    return _section(f"{spoken(headline(groups))} during training", about, _switch(charts))


def _switch(choices: dict[str, str]) -> str:
    """Show one of several contents, by radio buttons and a rule of the style sheet: no script."""
    there = [(name, content) for name, content in choices.items() if content]
    if len(there) < 2:
        return "".join(content for _, content in there)
    buttons, contents = "", ""
    for i, (name, content) in enumerate(there):
        group, key = plain(there[0][0]), plain(f"{name}-{i}").replace(" ", "-").lower()
        checked = " checked" if i == 0 else ""
        buttons += f'<input type="radio" name="{group}" id="{key}" class="choice-{i}"{checked}>'
        buttons += f'<label for="{key}">{escape(name)}</label>'
        contents += f'<div class="content-{i}">{content}</div>'
    return f'<div class="switch">{buttons}{contents}</div>'


def _recipe(settings: JsonObject) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{escape(key)}</th><td>{escape(value)}</td></tr>"
        for key, value in settings.items()
        if value not in (None, "", [], {})
    )
    if not rows:
        return ""
    table = f'<div class="scroll"><table class="recipe"><tbody>{rows}</tbody></table></div>'
    return f"<section><details><summary>The recipe</summary>{table}</details></section>"
