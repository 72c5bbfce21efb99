import pytest
import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.miners import Corrected, Queries
from unstale.search.draws import gumbel


def test_the_last_residual_is_remembered() -> None:
    memory = ResidualMemory(5, 2)
    memory.write(torch.tensor([3, 1]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert memory.read(torch.tensor([1, 2, 3])).tolist() == [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    memory.write(torch.tensor([1]), torch.tensor([[5.0, 5.0]]))
    assert memory.read(torch.tensor([1])).tolist() == [[5.0, 5.0]]


def test_scores_are_products_with_what_is_read() -> None:
    torch.manual_seed(0)
    memory = ResidualMemory(9, 4)
    memory.write(torch.tensor([8, 2, 3]), torch.randn(3, 4))
    queries = torch.randn(5, 4)
    for rows in ([2, 3, 4], [0], [3, 2, 4], [2, 4, 3], [0, 8], [*range(9)], []):
        chosen = torch.tensor(rows, dtype=torch.long)
        expected = queries @ memory.read(chosen).T
        torch.testing.assert_close(memory.scores(queries, chosen), expected)


def test_scores_of_pairs_are_those_of_a_querys_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    memory = ResidualMemory(9, 4, first=100)
    for _ in range(2):
        memory.write(100 + torch.randint(9, (3,)), torch.randn(3, 4))
    queries, rows = torch.randn(5, 4), 100 + torch.randint(9, (5, 6))
    expected = memory.scores(queries, torch.arange(100, 109)).gather(1, rows - 100)
    for gathered in (2**22, 50, 1):  # at once, two columns at a time, one
        monkeypatch.setattr("unstale.corrector.memory._GATHERED", gathered)
        torch.testing.assert_close(memory.pair_scores(queries, rows), expected)


def test_a_checkpoint_holds_it() -> None:
    memory = ResidualMemory(5, 2)
    memory.write(torch.tensor([3]), torch.ones(1, 2))
    again = ResidualMemory(5, 2)
    for name, (rows, _) in again.row_tensors().items():
        rows.copy_(memory.row_tensors()[name].tensor)
    assert torch.equal(again.read(torch.arange(5)), memory.read(torch.arange(5)))


def miner(gumbel_seed: int | None = None) -> tuple[Corrected, torch.Tensor]:
    torch.manual_seed(0)
    stale = torch.randn(80, 6)
    network = Corrector(6, (12,))
    with torch.no_grad():
        network.layers[1].weight.normal_(std=0.3)
    memory = ResidualMemory(80, 6)
    made = Corrected(TargetBuffer([stale]), network, memory=memory, gumbel_seed=gumbel_seed)
    return made, stale


def batch(step: int) -> Queries:
    torch.manual_seed(1)
    rows = torch.tensor([30, 10, 20, 10])  # not in order, and one of them twice
    vectors = torch.randn(4, 6)
    vectors[3] = vectors[1]
    return Queries(vectors, rows, torch.tensor([[0], [1], [2], [1]]), step, 20.0)


def asking(vectors: torch.Tensor, step: int) -> Queries:
    rows = torch.arange(len(vectors))
    return Queries(vectors, rows, torch.full((len(vectors), 1), -1), step, 20.0)


@pytest.mark.parametrize("gumbel_seed", [None, 3])
def test_search_sees_the_corrected_target_and_its_residual(gumbel_seed: int | None) -> None:
    made, stale = miner(gumbel_seed)
    fresh = torch.randn(20, 6)
    made.loss(asking(torch.randn(2, 6), 4), fresh, torch.arange(20), None)
    queries = batch(9)
    seen = made.network(stale)
    seen[:20] = fresh  # h has not moved since, so what it missed is all there is to add
    scores = queries.vectors @ seen.T
    if gumbel_seed is not None:
        scores = scores + gumbel(gumbel_seed, 20.0, 9, queries.rows, torch.arange(80))
    scores.scatter_(1, queries.positives, -torch.inf)
    assert torch.equal(made.mine(queries, 7), scores.topk(7).indices)
    view = made.view(torch.arange(80))
    assert view.corrected is not None
    torch.testing.assert_close(view.corrected, seen)
