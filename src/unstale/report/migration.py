"""The curve of a migration, quality against targets embedded, as a picture of its own."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from unstale.report.charts import Axes, Line, line_chart

_SIZE = (640.0, 360.0)
_TONES = {"cosine": "tone-stale", "recall@10": "tone-exhaustive"}


def curve_svg(points: Sequence[Mapping[str, Any]]) -> str:
    """Draw every measure of the curve with its 95% intervals; a whole SVG file.

    Args:
        points: As in results.json, the smallest sample first. Re-embedded targets are not a
            larger sample: such a point stands off the line.
    """
    names = [name for name in points[0] if name != "embedded"]
    sampled = [p for p in points if "re_embedded" not in p]
    beside = [p for p in points if "re_embedded" in p]
    lines = []
    for name in names:
        tone = _TONES.get(name, "tone-corrected")
        lines.append(Line(name, tone, _means(sampled, name), _ranges(sampled, name)))
        if beside:
            label = f"{name} + {beside[0]['re_embedded']:,}"
            lines.append(Line(label, tone, _means(beside, name)))
    title = "Quality of the corrected index against the targets embedded"
    across = "targets embedded" + (" (+ re-embedded)" if beside else "")
    chart = line_chart(lines, _SIZE, Axes(title, across, "%, with 95% intervals"))
    style = (files("unstale.report") / "page.css").read_text("utf-8")
    opening, marks = chart.split(">", 1)
    paper = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    font = "svg { font-family: system-ui, sans-serif; }"  # the page's is its body's
    return f"{opening}><style>\n{style}{font}</style>{paper}{marks}\n"


def _means(points: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(float(p["embedded"]), 100 * p[name]["value"]) for p in points]


def _ranges(points: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float, float]]:
    return [(float(p["embedded"]), 100 * p[name]["low"], 100 * p[name]["high"]) for p in points]
