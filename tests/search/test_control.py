"""How deep a scan fetches: deeper while that does not suffice, and less again once it does."""

import torch

from unstale.search.best import TopK
from unstale.search.control import OverlapControl
from unstale.search.rescore import Rescored


def found(exhausted: float) -> Rescored:
    """Return what a search measured that left so many queries in doubt."""
    best = TopK(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.long))
    return Rescored(best, 0.01, 10, 0, None, exhausted)


def test_the_depth_follows_the_doubt_both_ways() -> None:
    control = OverlapControl()
    control.observe(found(1.0))  # the first search tells nothing of the next
    assert control.depth == 32
    control.observe(found(0.5))
    assert control.depth == 48
    control.observe(found(0.01))  # few are in doubt, but not hardly any
    assert control.depth == 48
    for _ in range(20):
        control.observe(found(0.5))
    assert control.depth == 2048
    control.observe(found(0.0))
    assert control.depth == 1920
    for _ in range(100):
        control.observe(found(0.0))
    assert control.depth == 32
