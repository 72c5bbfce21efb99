"""The variants that several studies train: the paper's method to the letter, the mix, a choice."""

from collections.abc import Mapping
from typing import Any

from unstale.errors import InputError
from unstale.settings import MINE_FROM

Variant = Mapping[str, Any]  # names of TrainSettings, and the values that replace the defaults
# The paper's corrector, without what we add to it.
LETTER: Variant = {
    "strategy": "corrected",
    "memory": False,
    "fallback": False,
}
# The default strategy, made to mine on any data and in the whole corpus: its overlap is known.
STAGED: Variant = {"strategy": "staged", "mine_from": MINE_FROM, "mine_among": 10**9}


def mixed(variant: Variant, hard: int, uniform: int) -> Variant:
    """Set how many hard and uniform negatives a variant encodes for each query."""
    return {**variant, "hard_negatives": hard, "uniform_negatives": uniform}


def choose(known: Mapping[str, Variant], asked: str) -> dict[str, Variant]:
    """Return the variants that are asked for, separated by semicolons; all, if none is.

    Example:
        >>> list(choose({"stale": {}, "corrected": {}, "in-batch": {}}, "in-batch; stale"))
        ['in-batch', 'stale']
    """
    wanted = [label.strip() for label in asked.split(";")] if asked else list(known)
    for label in wanted:
        if label not in known:
            raise InputError(f"there is no recipe {label!r}, but {'; '.join(known)}")
    return {label: known[label] for label in wanted}
