"""Residuals added to what was fetched only: hand arithmetic, and what is lost by it."""

import pytest
import torch
from tests.search.clusters import clustered, moved
from torch.nn.functional import normalize

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import ResidualMemory
from unstale.search.added import Added
from unstale.search.best import TopK, agreement
from unstale.search.exact import Exact
from unstale.search.ivf import IVF
from unstale.search.rescore import add_late


def test_what_was_fetched_is_ranked_anew_and_its_second_half_tells_what_lies_beyond() -> None:
    found = TopK(torch.tensor([[0.9, 0.8, 0.7, 0.6]]), torch.tensor([[5, 3, 9, 1]]))
    memory = ResidualMemory(10, 1)
    residuals = torch.tensor([[-0.4], [0.0], [0.3], [0.1]])
    memory.write(torch.tensor([5, 3, 9, 1]), residuals)
    query = torch.ones(1, 1), torch.zeros(1, dtype=torch.long)
    fetched = add_late(found, Added(0, *query, memory))
    assert fetched.best.rows.tolist() == [[9, 3, 1, 5]]
    torch.testing.assert_close(fetched.best.scores, torch.tensor([[1.0, 0.8, 0.7, 0.5]]))
    # 0.3 and 0.1: 0.2 on average, and as a deviation 0.1.
    torch.testing.assert_close(fetched.next_score, torch.tensor([[0.6 + 0.2]]))
    torch.testing.assert_close(fetched.next_doubt, torch.tensor([[2 * 0.1]]))
    same = add_late(found, Added(0, *query, gumbel_seed=0))
    assert same.best is found
    assert (same.next_score.item(), same.next_doubt.item()) == (pytest.approx(0.6), 0.0)


@pytest.mark.parametrize("k", [4, 16])
def test_hardly_any_of_the_best_are_lost(k: int) -> None:
    n, d, steps = 3000, 32, 40
    _, stale, network = clustered(n, d, seed=0)
    memory = ResidualMemory(n, d)
    memory.write(torch.arange(n)[::2], 0.43 * normalize(torch.randn(n // 2, d)))
    search = IVF(TargetBuffer([stale]), network)
    held, forgotten = [], []
    for step in range(steps):
        moved(network, 0.004)
        queries = normalize(stale[torch.randint(n, (8,))] + 0.6 * normalize(torch.randn(8, d)))
        exact = Exact(search.buffer, network)
        residuals = Added(step, queries, torch.arange(8), memory)
        best = exact.top_k(queries, k, None, residuals).rows
        search.begin(step)
        found = search.top_k(queries, k, None, residuals)
        if step >= 10:  # by then it knows how deep to fetch
            held.append(agreement(found.rows, best))
            forgotten.append(agreement(exact.top_k(queries, k).rows, best))
    assert sum(held) / len(held) >= 0.93
    assert sum(forgotten) / len(forgotten) < 0.85  # so that there was something to remember
    assert search.control.depth > 32
    assert search.control.depth < n // 4
