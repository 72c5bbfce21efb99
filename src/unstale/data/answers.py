"""Judge texts and answers as SQuAD does, after its normalisation."""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower the case, drop punctuation and articles, and part words by one space.

    Example:
        >>> normalise("The  U.S. Army!")
        'us army'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def has_answer(text: str, golds: Sequence[str]) -> bool:
    """Tell whether a text holds one of the answers as whole words, both normalised."""
    return holds(normalise(text), [normalise(gold) for gold in golds])


def holds(normalised: str, golds: Sequence[str]) -> bool:
    """Do the same for a text and answers that are normalised already."""
    padded = f" {normalised} "
    return any(gold and f" {gold} " in padded for gold in golds)


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
