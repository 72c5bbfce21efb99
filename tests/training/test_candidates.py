"""The candidates of a step: which targets are in whose softmax, and what it takes to tell."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from unstale.miners.in_batch import InBatch
from unstale.miners.miner import Dropped, Mined, Queries
from unstale.miners.negatives import Negatives
from unstale.training.candidates import choose_candidates
from unstale.training.record import Counters

B, HARD, AWAY, N = 8, 60, 300, 2000


class Largest(TorchDispatchMode):
    """Remember the number of elements of the largest tensor that is made."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.numel = max(self.numel, made.numel())
        return made


def test_what_is_kept_away_is_absent_and_takes_no_product_of_all_with_all() -> None:
    """With 64 hard negatives and margins, 640 targets may be kept away from each query."""
    torch.manual_seed(0)
    hard, away = torch.randint(N, (B, HARD)), torch.randint(-1, N, (B, AWAY))
    label, positives = torch.arange(B), torch.stack([torch.arange(B), hard[:, 0]], dim=1)
    negatives, none = Negatives(InBatch()), hard[:, :0]
    negatives.mine = lambda _: Mined(hard, none, none, Dropped(away, {}, 0, 0))
    queries = Queries(torch.zeros(B, 4), torch.arange(B), positives, step=0)
    with Largest() as largest:
        found = choose_candidates(negatives, queries, label, Counters(), shared=True)
    never = torch.cat([positives, away], dim=1)
    expected = (found.rows[None, :, None] == never[:, None, :]).any(dim=2)
    expected[torch.arange(B), found.label] = False
    assert torch.equal(found.absent, expected)
    assert largest.numel <= 2 * B * (len(found.rows) + AWAY)
