"""One contract for every strategy in the registry."""

import pytest
import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.errors import InputError
from unstale.miners import Embedded, Miner, Queries
from unstale.training.strategies import STRATEGIES, Recipe, build_miner

N, D, B, K = 60, 8, 5, 6


def recipe(**changes) -> Recipe:
    torch.manual_seed(0)
    values = {
        "targets": N,
        "buffer": TargetBuffer([torch.randn(N, D)]),
        "seed": 3,
        "scale": 20.0,
        "hard_negatives": K,
        "uniform_negatives": 0,
        "sampling": "top-k",
        "corrector_hidden": (16,),
        "corrector_loss": "ce",
    }
    return Recipe(**values | changes)


def batch(step: int = 4) -> Queries:
    torch.manual_seed(1)
    positives = torch.tensor([[0, 1], [2, -1], [3, -1], [0, -1], [59, 5]])
    return Queries(torch.randn(B, D), torch.tensor([10, 11, 12, 13, 14]), positives, step)


@pytest.fixture(params=sorted(STRATEGIES))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_list_is_what_the_docs_promise() -> None:
    assert set(STRATEGIES) == {"in-batch", "uniform", "stale", "stale-frozen", "corrected"}


@pytest.mark.parametrize("sampling", ["top-k", "gumbel"])
@pytest.mark.parametrize("uniform", [0, 3])
def test_mines_distinct_rows_that_are_not_positives(name: str, sampling: str, uniform: int) -> None:
    miner = build_miner(name, recipe(sampling=sampling, uniform_negatives=uniform))
    queries = batch()
    rows = miner.mine(queries, K)
    assert rows.shape == (B, 0 if name == "in-batch" else K + uniform)
    assert not (rows[:, :, None] == queries.positives[:, None, :]).any()
    if rows.numel():
        assert rows.min() >= 0
        assert rows.max() < N
    for hard in rows[:, :K].tolist():
        assert len(set(hard)) == len(hard)


@pytest.mark.parametrize("sampling", ["top-k", "gumbel"])
def test_a_query_draws_the_same_alone_or_in_company(name: str, sampling: str) -> None:
    miner = build_miner(name, recipe(sampling=sampling, uniform_negatives=2))
    queries = batch()
    alone = Queries(*(t[2:3] for t in queries[:3]), step=queries.step)
    assert torch.equal(miner.mine(alone, K), miner.mine(queries, K)[2:3])


def test_another_step_draws_anew_only_where_something_is_drawn(name: str) -> None:
    miner = build_miner(name, recipe())
    same = torch.equal(miner.mine(batch(1), K), miner.mine(batch(2), K))
    assert same == (name != "uniform")


def test_the_loss_is_finite_and_moves_only_the_miners_weights(name: str) -> None:
    miner: Miner = build_miner(name, recipe(uniform_negatives=1))
    queries = torch.randn(B, D, requires_grad=True)
    fresh = torch.randn(9, D, requires_grad=True)
    loss = miner.loss(queries, fresh, torch.arange(9), None)
    assert loss.shape == ()
    assert torch.isfinite(loss)
    weights = list(miner.parameters())
    assert bool(weights) == (name == "corrected")
    if weights:
        loss.backward()
        assert any(w.grad is not None and w.grad.abs().sum() > 0 for w in weights)
    assert queries.grad is None
    assert fresh.grad is None


def test_refresh_reports_what_it_embeds(name: str) -> None:
    asked: list[int] = []

    def embed(rows: torch.Tensor) -> torch.Tensor:
        asked.append(len(rows))
        return torch.randn(len(rows), D)

    miner = build_miner(name, recipe(uniform_negatives=1))
    totals = [miner.refresh(step, embed) for step in range(1, 9)]
    assert sum(t.refreshed + t.sampled for t in totals) == sum(asked)
    assert all(t == Embedded() for t in totals)  # none of these strategies re-embeds


def test_view_shows_what_is_searched(name: str) -> None:
    made = recipe(uniform_negatives=1)
    view = build_miner(name, made).view(torch.tensor([4, 2]))
    if name in ("in-batch", "uniform"):
        assert view is None
        return
    assert view is not None
    assert torch.equal(view.stale, made.cache[torch.tensor([4, 2])])
    assert (view.corrected is not None) == (name == "corrected")


def test_too_many_for_the_corpus_is_an_error(name: str) -> None:
    if name != "in-batch":
        with pytest.raises(InputError):
            build_miner(name, recipe()).mine(batch(), N)


def test_an_unknown_strategy_lists_those_there_are() -> None:
    with pytest.raises(
        InputError, match=r"unknown strategy 'fresh'; choose from in-batch.*corrected"
    ):
        build_miner("fresh", recipe())


def test_uniform_draws_every_target_equally_often() -> None:
    miner = build_miner("uniform", recipe())
    many = Queries(torch.zeros(4000, D), torch.arange(4000), torch.full((4000, 1), -1), 0)
    counts = torch.bincount(miner.mine(many, 3).flatten(), minlength=N).float()
    # 12,000 draws over 60 targets: 200 each, standard deviation about sqrt(200) = 14.
    assert (counts - 200).abs().max() < 5 * 14.2
