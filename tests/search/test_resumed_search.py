"""Does a search go on from a checkpoint, and through a renewal, as if nothing had happened?"""

import pytest
import torch
from tests.search.clusters import MODES, clustered, moved
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.search import ivf
from unstale.search.ivf import IVF
from unstale.search.rolling import Rolling
from unstale.search.search import Search


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("mode", ["rolling", "ivf"])
def test_a_resumed_search_goes_on_exactly(mode: str, unit: bool) -> None:
    queries, stale, network = clustered(1200, 16, seed=1, unit=unit)
    path = [moved(Corrector(16, (32,), unit=unit), 0.2).state_dict()]
    for _ in range(60):
        torch.manual_seed(len(path))
        network.load_state_dict(path[-1])
        path.append({k: v.clone() for k, v in moved(network, 0.01).state_dict().items()})

    def run(search: Search, steps: range) -> list[Tensor]:
        answers = []
        for step in steps:
            network.load_state_dict(path[step])
            search.begin(step)
            answers.append(search.top_k(queries, 20, torch.arange(9)[:, None]).rows)
        return answers

    whole = MODES[mode](TargetBuffer([stale]), network)
    expected = run(whole, range(60))
    first, stop = MODES[mode](TargetBuffer([stale]), network), 0
    while stop < 20 or first.snapshot.complete():  # type: ignore[attr-defined]
        run(first, range(stop, stop + 1))  # until it is amid a pass
        stop += 1
    state = {k: v.clone() for k, v in first.state_dict().items()}
    second = MODES[mode](TargetBuffer([stale]), network)
    second.load_state_dict(state)
    rest = run(second, range(stop, 60))
    assert all(torch.equal(a, b) for a, b in zip(rest, expected[stop:], strict=True))
    assert second.readings == whole.readings


def test_the_cells_of_a_checkpoint_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, stale, network = clustered(1200, 16, seed=1)
    buffer = TargetBuffer([stale])
    unused, first = IVF(buffer, network), IVF(buffer, network)
    before = {k: v.clone() for k, v in unused.state_dict().items()}  # of a run that never searched
    first.begin(0)
    after = {k: v.clone() for k, v in first.state_dict().items()}  # before the first pass
    expected = first.top_k(queries, 20).rows
    late = IVF(buffer, network)
    late.load_state_dict(before)
    late.begin(0)
    assert torch.equal(late.top_k(queries, 20).rows, expected)

    def refuse(*_: object) -> None:
        raise AssertionError("another machine may make other cells")

    monkeypatch.setattr(ivf, "partition", refuse)
    second = IVF(buffer, network)
    second.load_state_dict(after)
    second.begin(0)
    assert torch.equal(second.top_k(queries, 20).rows, expected)
    with pytest.raises(KeyError):  # of a version that made the cells again
        IVF(buffer, network).load_state_dict({k: v for k, v in after.items() if k != "order"})


def test_a_renewal_makes_every_row_what_h_was_when_it_began() -> None:
    queries, stale, network = clustered(5000, 16, seed=2)
    moved(network, 0.5)  # far from linear, so that renewing pays
    search = Rolling(TargetBuffer([stale]), network)
    for step in range(300):
        search.begin(step)
        search.top_k(queries, 20)
        if search.snapshot.renewed:
            break
    literal = network(stale)
    moved(network, 0.5)  # which the pass is not to see
    while not search.snapshot.complete():
        step += 1
        search.begin(step)
    assert search.snapshot.renewed == 5000
    torch.testing.assert_close(search.snapshot.stored.between(0, 5000), literal)
