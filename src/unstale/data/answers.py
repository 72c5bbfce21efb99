"""Judge answers as SQuAD does, after its normalisation, and texts that may hold one as DPR does."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import final

import regex

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")  # DPR's SimpleTokenizer
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower the case, drop punctuation and articles, and part words by one space.

    Example:
        >>> normalise("The  U.S. Army!")
        'us army'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


@final
class AnswerFinder:
    """Tell whether texts hold one of some answers, as DPR does (its match type `string`).

    Both are brought into Unicode's decomposed form and cut into DPR's tokens, runs of letters,
    digits and marks or any other single character; an answer is found where its tokens, in lower
    case, stand one after the other. An answer without tokens is never found.

    Example:
        >>> found = AnswerFinder(["New York"])
        >>> found("in new york."), found("a new Yorkshire"), found("New-York")
        (True, False, False)
    """

    def __init__(self, golds: Sequence[str]) -> None:
        spans = [span for span in map(_tokens, golds) if span.strip()]
        self._golds = [(span, _filtered(max(span.split(), key=len))) for span in spans]

    def __call__(self, text: str) -> bool:
        """Look for the answers in a text."""
        # Most texts lack the longest token of every answer, and need not be cut into tokens.
        lower = _filtered(unicodedata.normalize("NFD", text))
        wanted = [span for span, longest in self._golds if longest in lower]
        return bool(wanted) and any(span in tokens for tokens in [_tokens(text)] for span in wanted)


def _tokens(text: str) -> str:
    """Return the tokens of a text, each between spaces."""
    found = _TOKEN.findall(unicodedata.normalize("NFD", text))
    return f" {' '.join(token.lower() for token in found)} "


def _filtered(text: str) -> str:
    return text.lower().replace("\u03c2", "\u03c3")  # a sigma's case depends on what follows it


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
