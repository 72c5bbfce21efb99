"""What a migration costs and loses against embedding everything anew, in numbers and a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from unstale.migration.validate import Interval

GOOD, USABLE = 0.8, 0.5  # of the true neighbours, found


def verdict(
    overlap: Interval, targets: int, embedded: int, *, embedding: float, fitting: float,
    correcting: float,
) -> dict[str, Any]:  # fmt: skip
    """Weigh the seconds of embedding some of the targets, fitting and correcting the rest.

    What is lost is the overlap with full re-embedding.
    """
    full = embedding / embedded * targets
    spent = embedding + fitting + correcting
    if spent >= full:
        advice = "embed everything: it takes no longer"
    elif overlap.low >= GOOD:
        advice = "use it as it is"
    elif overlap.value >= USABLE:
        advice = "serve it while the rest is re-embedded, or embed a larger sample"
    else:
        advice = "embed a larger sample, or everything: most neighbours would differ"
    text = (
        f"Embedding {embedded:,} of {targets:,} targets and correcting the rest took "
        f"{_duration(spent)}; embedding all would take about {_duration(full)} at the same rate. "
        f"It keeps {100 * overlap.value:.0f}% of the true neighbours "
        f"(95% interval {100 * overlap.low:.0f} to {100 * overlap.high:.0f}). Advice: {advice}."
    )
    return {"advice": advice, "text": text, "seconds_spent": spent, "seconds_to_embed_all": full}


def curve_table(points: Sequence[Mapping[str, Any]], targets: int, each: float) -> str:
    """Write the curve of results.json as text; `each` is the seconds of embedding a target."""
    names = [name for name in points[0] if name != "embedded"]
    lines = [["embedded", "of all", "time", *names]]
    for point in points:
        more = point.get("re_embedded")
        count = point["embedded"] - (more or 0)
        shown = f"{count:,}" + (f" + {more:,}" if more else "")
        part = f"{point['embedded'] / targets:.1%}"
        means = [
            f"{point[n]['value']:.3f} ± {(point[n]['high'] - point[n]['low']) / 2:.3f}"
            for n in names
        ]
        lines.append([shown, part, _duration(each * point["embedded"]), *means])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def _duration(seconds: float) -> str:
    """Write seconds as people say them.

    Example:
        >>> _duration(42.4), _duration(600.0), _duration(9000.0)
        ('42 s', '10.0 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
