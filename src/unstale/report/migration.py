"""The curve of a migration, quality against targets embedded, as a picture of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

from unstale.report.charts import Axes, Line, line_chart
from unstale.report.document import style_sheet

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
        lines.append(_line(name, name, sampled))
        if beside:
            lines.append(_line(name, f"{name} + {beside[0]['re_embedded']:,}", beside))
    title = "Quality of the corrected index against the targets embedded"
    across = "targets embedded" + (" (+ re-embedded)" if beside else "")
    chart = line_chart(lines, _SIZE, Axes(title, across, "%, with 95% intervals"))
    opening, marks = chart.split(">", 1)
    paper = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    font = "svg { font-family: system-ui, sans-serif; }"  # the page's is its body's
    return f"{opening}><style>\n{style_sheet()}{font}</style>{paper}{marks}\n"


def _line(name: str, label: str, points: Sequence[Mapping[str, Any]]) -> Line:
    at = [float(p["embedded"]) for p in points]
    value, low, high = ([100 * p[name][k] for p in points] for k in ("value", "low", "high"))
    # A point that stands alone has no width for a band.
    band = list(zip(at, low, high, strict=True)) if len(points) > 1 else []
    tone = _TONES.get(name, "tone-corrected")
    return Line(label, tone, list(zip(at, value, strict=True)), band)
