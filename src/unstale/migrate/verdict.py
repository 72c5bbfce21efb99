"""What a migration costs and loses against embedding everything anew, in numbers and a sentence."""

from typing import Any

from unstale.migrate.validate import Interval

GOOD, USABLE = 0.8, 0.5  # of the true neighbours, found


def verdict(
    overlap: Interval, *, targets: int, embedded: int, embedding: float, fitting: float,
    correcting: float,
) -> dict[str, Any]:  # fmt: skip
    """Weigh seconds against lost neighbours.

    Args:
        overlap: The estimated overlap with full re-embedding.
        targets: How many there are.
        embedded: How many were embedded.
        embedding: Seconds that took.
        fitting: Seconds of fitting and validation.
        correcting: Seconds from old vectors on disk to new ones.
    """
    full = embedding / embedded * targets
    spent = embedding + fitting + correcting
    if overlap.low >= GOOD:
        advice = "use it as it is"
    elif overlap.high >= USABLE:
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


def _duration(seconds: float) -> str:
    """Write seconds as people say them.

    Example:
        >>> _duration(42.4), _duration(600.0), _duration(9000.0)
        ('42 s', '10.0 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
