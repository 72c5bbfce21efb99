"""What is added to scores: the same for a part of the queries or of the corpus, late or not."""

import pytest
import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.miners import Corrected, Miner, Schedule
from unstale.miners.exhaustive import Refreshed
from unstale.search.added import Added
from unstale.search.exact import Exact
from unstale.search.sharded import search_in_place

TARGETS, STEP = 12, 5


def kinds() -> dict[str, Added]:
    torch.manual_seed(0)
    memory = ResidualMemory(TARGETS, 4)
    memory.write(torch.tensor([1, 7, 8]), torch.randn(3, 4))
    queries = torch.randn(5, 4), torch.tensor([9, 2, 30, 4, 2])
    return {
        "noise": Added(STEP, *queries, gumbel_seed=3, scale=20.0),
        "residuals": Added(STEP, *queries, memory),
        "both": Added(STEP, *queries, memory, 3, 20.0),
    }


@pytest.mark.parametrize("kind", kinds())
def test_a_part_of_the_queries_or_rows_has_the_same_scores(kind: str) -> None:
    added = kinds()[kind]
    whole = added.scores(torch.arange(TARGETS))
    places = torch.tensor([3, 0, 3])
    torch.testing.assert_close(added.of(places).scores(torch.arange(TARGETS)), whole[places])
    torch.testing.assert_close(added.of(slice(2)).scores(torch.arange(TARGETS)), whole[:2])
    shard = added.starting_at(4).starting_at(3)
    torch.testing.assert_close(shard.scores(torch.arange(TARGETS - 7)), whole[:, 7:])
    torch.testing.assert_close(shard.of(places).scores(torch.tensor([1])), whole[places, 8:9])


def test_only_residuals_may_be_late() -> None:
    added = kinds()
    assert added["noise"].late is None
    assert added["both"].late is None
    whole = added["residuals"].scores(torch.arange(TARGETS))
    late = added["residuals"].starting_at(6).late
    assert late is not None
    rows = torch.tensor([[0, 2], [1, 1], [2, 5], [3, 4], [5, 2]])
    torch.testing.assert_close(late(rows), whole.gather(1, rows + 6))


def test_both_is_the_sum() -> None:
    added, rows = kinds(), torch.arange(TARGETS)
    parts = added["residuals"].scores(rows) + added["noise"].scores(rows)
    assert torch.equal(added["both"].scores(rows), parts)


def test_a_whole_buffer_is_searched_without_a_merge() -> None:
    buffer = TargetBuffer([torch.randn(TARGETS, 4)])
    assert isinstance(search_in_place(buffer, Exact), Exact)


def test_miners_name_their_searches_and_the_tensors_with_a_row_for_each_target() -> None:
    def buffer() -> TargetBuffer:
        return TargetBuffer([torch.randn(TARGETS, 4)])

    memory = ResidualMemory(TARGETS, 4, first=24)
    corrected = Corrected(buffer(), Corrector(4, (8,)), memory=memory)
    refreshed = Refreshed(buffer(), Schedule([]), below=0.5)
    expected: list[tuple[Miner, dict[str, int]]] = [
        (corrected, {"memory.residual": 24, "memory.known": 24}),
        (refreshed, {"vectors": 0}),
    ]
    for miner, names in expected:
        found = miner.row_tensors()
        assert {name: rows.first for name, rows in found.items()} == names
        assert all(len(rows.tensor) == TARGETS for rows in found.values())
        assert not names.keys() & miner.state_dict().keys()  # they do not move with the module
        assert len(miner.searches()) == 1
