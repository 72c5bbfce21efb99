"""What a migration costs and loses against embedding everything anew, in numbers and a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

from jaxtyping import Float
from numpy import ndarray

from unstale.migration.validate import Interval, as_json, mean_interval
from unstale.migration.ways import ALL, PART, READ, REWRITE, STAY, WAYS

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
        f"{duration(spent)}; embedding all would take about {duration(full)} at the same rate. "
        f"It keeps {100 * overlap.value:.0f}% of the true neighbours "
        f"(95% interval {100 * overlap.low:.0f} to {100 * overlap.high:.0f}). Advice: {advice}."
    )
    return {"advice": advice, "text": text, "seconds_spent": spent, "seconds_to_embed_all": full}


@final
class Rates(NamedTuple):
    """What was measured of the new encoder and of the work so far."""

    targets: int
    embedded: int  # so far: the sample and the relevant targets
    each: float  # seconds of embedding a target
    correcting: float  # seconds of correcting everything, estimated
    tokens: float  # of a target, on average
    price: float | None  # of a million tokens

    def cost(self, way: str, queries: int) -> dict[str, float | int | None]:
        """Return the targets that a way embeds beyond those that are, with seconds and money."""
        left = self.targets - self.embedded
        more = {PART: min(left, READ * queries), ALL: left}.get(way, 0)
        seconds = more * self.each + (self.correcting if way == REWRITE else 0.0)
        return {"more_targets": more, "seconds": seconds, "money": self.money(more)}

    def money(self, targets: int) -> float | None:
        """Return what it costs to embed some targets; None if nothing is paid by tokens."""
        return None if self.price is None else targets * self.tokens * self.price / 1e6


TIE = 0.002  # of recall, within which the cheaper way is advised


def best_way(values: Mapping[str, Float[ndarray, " q"]]) -> str:
    """Name the best way: the cheapest of those that tie with it.

    Embedding everything costs by far the most, so it must be better than the best other way by more
    than the standard error of the difference.
    """

    def best_of(ways: Sequence[str]) -> str:
        means = {way: float(values[way].mean()) for way in ways}
        return next(way for way in ways if means[way] >= max(means.values()) - TIE)

    best, other = best_of(WAYS), best_of([way for way in WAYS if way != ALL])
    more = values[best] - values[other]
    sure = more.mean() > more.std(ddof=1) / len(more) ** 0.5
    return best if best != ALL or sure else other


def advise(values: Mapping[str, Float[ndarray, " q"]], rates: Rates) -> dict[str, Any]:
    """Compare the ways of serving, and name the best."""
    found = {way: mean_interval(values[way]) for way in WAYS}
    best = best_way(values)
    queries = len(values[STAY])
    gain = mean_interval(values[best] - values[STAY], least=-1.0)
    table = [
        {"way": way, **as_json({"recall@10": found[way]}), **rates.cost(way, queries)}
        for way in WAYS
    ]
    text = f"Advice: {best}. It is expected to find {found[best].value:.3f} of what is relevant"
    if best != STAY:
        text += f", {gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}) against the old index"
    return {
        "advice": best,
        "text": f"{text} (recall@10 over {queries} judged queries).",
        "ways": table,
    }


def ways_table(ways: Sequence[Mapping[str, Any]], queries: int) -> str:
    """Write the ways of results.json as text."""
    lines = [["way", "recall@10", "95% interval", "embeds", "time", "money"]]
    for way in ways:
        recall, money = way["recall@10"], way["money"]
        interval = f"{recall['low']:.3f} to {recall['high']:.3f}"
        cost = "" if money is None else f"{money:.2f}"
        embeds = f"{way['more_targets']:,}" + (" or less" if way["way"] == PART else "")
        shown = [way["way"], f"{recall['value']:.3f}", interval, embeds]
        lines.append([*shown, duration(way["seconds"]), cost])
    return (
        aligned(lines)
        + f"\n({PART}: the first {READ} targets of {queries} queries each, embedded when fetched)"
    )


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
        lines.append([shown, part, duration(each * point["embedded"]), *means])
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Write a table as text, each column as wide as its widest cell."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def duration(seconds: float) -> str:
    """Write seconds as people say them.

    Example:
        >>> duration(42.4), duration(600.0), duration(9000.0)
        ('42 s', '10.0 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
