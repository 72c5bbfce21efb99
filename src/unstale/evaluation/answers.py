"""Judge answers as SQuAD does, by exact match and F1 after its normalisation."""

from collections import Counter
from collections.abc import Sequence

from unstale.data.answers import normalise


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """Return 1 if the answer is one of the gold ones, else 0."""
    return float(normalise(answer) in map(normalise, golds))


def f1(answer: str, golds: Sequence[str]) -> float:
    """Return the best F1 of shared words over the gold answers.

    Example:
        >>> round(f1("the red castle", ["red castle hill", "blue"]), 3)
        0.8
    """
    return max((_f1(normalise(answer).split(), normalise(g).split()) for g in golds), default=0.0)


def _f1(words: list[str], gold: list[str]) -> float:
    if not words or not gold:
        return float(words == gold)
    shared = (Counter(words) & Counter(gold)).total()
    return 2 * shared / (len(words) + len(gold))
