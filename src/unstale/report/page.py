"""One HTML page for a run that opens anywhere, offline: no script, nothing loaded."""

from pathlib import Path
from typing import Any

from unstale import __version__
from unstale.files import atomic_file
from unstale.report.document import document, style_sheet
from unstale.report.entries import Group, headline, read_groups, spoken
from unstale.report.escape import escape
from unstale.report.figures import by_strategy, curves, freshness, losses, memorising
from unstale.report.grid import comparison_table, results_table
from unstale.report.shown import answers_html, examples_html
from unstale.report.words import key_figures, sentences
from unstale.results import RESULTS, JsonObject, read_results
from unstale.written import keep_list

PAGE = "report.html"


def write_page(folder: Path, settings: dict[str, Any] | None = None) -> Path:
    """Write `folder/report.html` from `folder/results.json`, and return its path.

    Args:
        folder: A run folder.
        settings: The run's settings, if known; all of them are shown as its recipe.
    """
    page = build_page(read_results(folder), settings or {}, source=folder / RESULTS)
    keep_list(folder)  # so that a page that somebody else put there is not replaced
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
        _section(f"{spoken(headline(groups))} by strategy", "", by_strategy(groups)),
        _freshness(groups),
        _curves(groups),
        _section(
            "Loss",
            "The training loss, each point the mean since the point before. Strategies have "
            "different negatives: a lower loss does not make one better than another.",
            losses(groups),
        ),
        _section(
            "Training queries",
            "The same measurement on a fixed sample of the queries that the encoder was trained "
            "on. Where it rises and that of the other queries does not, the encoder memorises its "
            "training pairs.",
            memorising(groups),
        ),
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
        title=f"unstale: {escape(name)}",
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
    said = "".join(f"<p>{s}</p>" for s in sentences(groups, data, settings))
    figures = f'<dl class="figures">{figures}</dl>' if figures else ""
    return f'<section class="summary">{figures}{said}</section>'


def _freshness(groups: list[Group]) -> str:
    about = (
        "How well the cache agrees with the current encoder, for a fixed set of training queries: "
        "the share of the true top 10 that the cache finds, estimated from the few targets that "
        "the freshness meter encodes, and the KL divergence over these targets. The stale line is "
        "the cache as it was last embedded. The corrected line is the same cache seen through the "
        "corrector."
    )
    if any(g.trained and not any(run.freshness for run in g.runs) for g in groups):
        about += " Strategies that keep no embedding of every target are not drawn."
    return _section("Freshness", about, freshness(groups))


def _curves(groups: list[Group]) -> str:
    charts = curves(groups, "seconds")
    if steps := curves(groups, "steps"):
        charts += f"<details><summary>against steps</summary>{steps}</details>"
    about = "Means over the seeds. The clock counts training, refreshes included, not measuring."
    return _section(f"{spoken(headline(groups))} during training", about, charts)


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
