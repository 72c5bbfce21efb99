"""A snapshot that holds the residuals: what it serves, that little is lost, and that it resumes."""

import pytest
import torch
from tests.materials import small_miner
from tests.search.clusters import clustered, moved
from torch import Tensor
from torch.nn.functional import normalize

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.miners import Corrected, Queries
from unstale.search.added import Added
from unstale.search.auto import Choice
from unstale.search.best import agreement
from unstale.search.exact import Exact
from unstale.search.rolling import Rolling

N, D = 3000, 32


def residuals(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Return what h missed of some targets."""
    random = torch.Generator().manual_seed(seed)
    rows = torch.randperm(N, generator=random)[:count]
    return rows, 0.43 * normalize(torch.randn(count, D, generator=random))


@pytest.mark.parametrize("k", [4, 16])
@pytest.mark.parametrize("unit", [False, True])
def test_hardly_any_of_the_best_are_lost_and_less_is_fetched(unit: bool, k: int) -> None:
    _, stale, network = clustered(N, D, seed=0, unit=unit)
    memory = ResidualMemory(N, D)
    memory.write(*residuals(0, N // 2))
    search = Rolling(TargetBuffer([stale]), network, memory=memory)
    late = Rolling(search.buffer, network)  # adds residuals to what it has fetched
    held, forgotten = [], []
    for step in range(40):
        moved(network, 0.004)
        queries = normalize(stale[torch.randint(N, (8,))] + 0.6 * normalize(torch.randn(8, D)))
        exact, added = Exact(search.buffer, network), Added(step, queries, torch.arange(8), memory)
        best = exact.top_k(queries, k, None, added).rows
        for one in (search, late):
            one.begin(step)
            found = one.top_k(queries, k, None, added).rows
            if one is search:
                held.append(agreement(found, best))
        forgotten.append(agreement(exact.top_k(queries, k).rows, best))
        rows, missed = residuals(step + 1, 64)
        memory.write(rows, missed)
        search.remember(rows)
    assert sum(held) / len(held) >= 0.985
    assert sum(forgotten) / len(forgotten) < 0.85  # so that there was something to remember
    assert search.control.depth < late.control.depth


def test_every_row_is_served_as_a_version_of_h_sees_it_and_with_its_last_residual() -> None:
    _, stale, network = clustered(N, D, seed=2, unit=True)
    memory = ResidualMemory(N, D)
    memory.write(*residuals(0, 100))
    search = Rolling(TargetBuffer([stale]), network, memory=memory)
    search.remember(torch.arange(N))  # before there is a copy: it will be made with residuals
    search.begin(0)
    torch.testing.assert_close(search.snapshot.stored.data, stale + memory.residual)
    versions = []
    for size in (0.5, 0.3):  # the second pass stops on its way
        moved(network, size)
        versions.append(network(stale).detach())
        search.snapshot.open_pass()
        search.snapshot.renew(N if size == 0.5 else 1000)
    rows, missed = residuals(1, 500)
    memory.write(rows, missed)
    search.remember(rows)
    seen = torch.cat([versions[1][:1000], versions[0][1000:]])
    torch.testing.assert_close(search.snapshot.stored.data, seen + memory.residual)


@pytest.mark.parametrize("stop", [1, 20])
def test_a_resumed_search_serves_the_same(stop: int) -> None:
    queries, stale, network = clustered(N, D, seed=1, unit=True)
    path = [moved(Corrector(D, (2 * D,), unit=True), 0.2).state_dict()]
    for _ in range(40):
        torch.manual_seed(len(path))
        network.load_state_dict(path[-1])
        path.append({k: v.clone() for k, v in moved(network, 0.05).state_dict().items()})

    def run(search: Rolling, memory: ResidualMemory, steps: range) -> list[Tensor]:
        answers = []
        for step in steps:
            network.load_state_dict(path[step])
            search.begin(step)
            added = Added(step, queries, torch.arange(len(queries)), memory)
            answers.append(search.top_k(queries, 20, None, added).rows)
            rows, missed = residuals(step, 100)
            memory.write(rows, missed)
            search.remember(rows)
        return answers

    def start() -> tuple[Rolling, ResidualMemory]:
        memory = ResidualMemory(N, D)
        return Rolling(TargetBuffer([stale]), network, memory=memory), memory

    whole = start()
    expected = run(*whole, range(40))
    first, second = start(), start()
    run(*first, range(stop))
    state = {k: v.clone() for k, v in first[0].state_dict().items()}
    assert ("stored" in state) == (stop > 1)  # until rows are renewed, they can be copied again
    second[0].load_state_dict(state)
    second[1].residual.copy_(first[1].residual)
    second[1].known.copy_(first[1].known)
    rest = run(*second, range(stop, 40))
    assert all(torch.equal(a, b) for a, b in zip(rest, expected[stop:], strict=True))
    assert second[0].readings == whole[0].readings


def test_a_miner_tells_its_search_what_it_remembers() -> None:
    miner = small_miner("corrected", search=Choice("rolling", "float32", "a test"))
    assert isinstance(miner, Corrected)
    queries = Queries(torch.randn(4, 8), torch.arange(4), torch.full((4, 1), -1), 0)
    miner.mine(queries, 3)
    rows = torch.tensor([5, 1, 40])
    miner.loss(queries, torch.randn(3, 8), rows, None)
    assert miner.memory is not None
    snapshot = miner.search.snapshot  # type: ignore[attr-defined]
    torch.testing.assert_close(
        snapshot.stored[rows], miner.buffer[rows] + miner.memory.residual[rows]
    )
    assert miner.memory.residual[rows].norm() > 0.1
