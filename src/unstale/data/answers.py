"""Does a text hold an answer? After SQuAD's normalisation."""

import re
import string
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
