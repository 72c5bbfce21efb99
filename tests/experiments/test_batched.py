"""Many correctors at once are the same correctors one by one."""

import pytest
import torch

from experiments.studies.batched import Tasks, residual_mlp, start, train_correctors
from experiments.studies.synthetic import DIM, SHAPES, make_world, parameter_count
from unstale.corrector.losses import cross_entropy
from unstale.corrector.network import Corrector


def worlds(models: int, n: int = 30):
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(models, n, DIM, generator=generator) / 3 for _ in range(2)]
    queries = torch.randn(models, 5, DIM, generator=generator)
    return draw[0], draw[0] + 0.3 * draw[1], queries


def as_corrector(parameters, i: int, shape) -> Corrector:
    h = Corrector(DIM, shape)
    with torch.no_grad():
        for layer, weight, bias in zip(h.layers, parameters[::2], parameters[1::2], strict=True):
            layer.weight.copy_(weight[i].T)
            layer.bias.copy_(bias[i, 0])
    return h


@pytest.mark.parametrize("shape", [(), (6,), (5, 7)])
def test_computes_what_the_network_computes(shape) -> None:
    stale, _, _ = worlds(3)
    parameters = start(3, [DIM, *shape, DIM], torch.Generator().manual_seed(1), gain=1.0)
    together = residual_mlp(parameters, stale)
    for i in range(3):
        torch.testing.assert_close(together[i], as_corrector(parameters, i, shape)(stale[i]))


def test_the_divergence_is_that_of_the_loss() -> None:
    stale, fresh, queries = worlds(3)
    found = Tasks.make(stale, fresh, queries, 4.0).divergence(stale)
    for i in range(3):
        expected = cross_entropy(queries[i], fresh[i], stale[i], 4.0)
        torch.testing.assert_close(found[i], expected, rtol=1e-4, atol=1e-5)


def test_training_together_is_training_alone_by_torchs_adam() -> None:
    stale, fresh, queries = worlds(2)
    begin = start(2, [DIM, 6, DIM], torch.Generator().manual_seed(1))
    best = train_correctors(Tasks.make(stale, fresh, queries, 4.0), begin, epochs=12)
    for i in range(2):
        h = as_corrector(begin, i, (6,))
        optimizer = torch.optim.Adam(h.parameters(), 0.03)
        lowest, kept = float("inf"), None
        for _ in range(12):
            optimizer.zero_grad()
            loss = cross_entropy(queries[i], fresh[i], h(stale[i]), 4.0)
            if loss.item() < lowest:
                lowest, kept = loss.item(), h(stale[i]).detach()
            loss.backward()
            optimizer.step()
        ours = as_corrector(best, i, (6,))(stale[i])
        # The divergence does not see a vector common to all targets, so its gradient for the last
        # bias is rounding noise, which Adam blows up to full steps: compare what is left.
        torch.testing.assert_close(ours - ours.mean(0), kept - kept.mean(0), rtol=1e-2, atol=1e-3)


def test_a_task_without_drift_stops_and_the_others_go_on() -> None:
    stale, fresh, queries = worlds(4)
    fresh[1:] = stale[1:]  # nothing to learn: the first loss is the best, patience runs out
    begin = start(4, [DIM, 6, DIM], torch.Generator().manual_seed(1))
    tasks = Tasks.make(stale, fresh, queries, 4.0)
    best = train_correctors(tasks, begin, epochs=60, patience=3)
    after = tasks.divergence(residual_mlp(best, stale))
    assert after[0] < tasks.divergence(stale)[0] / 2
    assert after[1:].abs().max() < 1e-4


def test_counts_and_shapes_are_the_papers() -> None:
    # 0 to 2 hidden layers of D, 2D, 4D or 8D, D = 8.
    assert len(SHAPES) == 1 + 4 + 4
    for shape in SHAPES:
        assert parameter_count(shape) == Corrector(DIM, shape).parameter_count


def test_more_gain_is_more_drift_and_a_seed_is_a_world() -> None:
    staleness = [make_world((16,), gain, 3).staleness for gain in (0.0, 0.5, 1.0, 1.5)]
    assert staleness[0] == pytest.approx(0, abs=1e-4)
    assert staleness == sorted(staleness)
    assert torch.equal(make_world((16,), 0.5, 3).fresh, make_world((16,), 0.5, 3).fresh)
