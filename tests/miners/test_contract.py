"""One contract for every strategy in the registry."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.materials import encoded_rows, mining, small_materials, small_miner, small_negatives

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import ByQuery
from unstale.errors import InputError
from unstale.miners import Embedded, Filters, Miner, Queries, find_strategy, strategies

N, D, B, K, STEPS = 60, 8, 5, 6, 8


def batch(step: int = 4) -> Queries:
    torch.manual_seed(1)
    positives = torch.tensor([[0, 1], [2, -1], [3, -1], [0, -1], [59, 5]])
    return Queries(torch.randn(B, D), torch.tensor([10, 11, 12, 13, 14]), positives, step)


# What a run of 8 steps with 4 refreshes costs: (refreshed, sampled).
COST = {
    "in-batch": (0, 0),
    "uniform": (0, 0),
    "stale": (0, 0),
    "stale-frozen": (0, 0),
    "exhaustive": (4 * N, 0),
    "stochastic": (4 * 40, 0),
    "two-round": (N, 0),
    # Refits after steps 2, 4, 6, 8; full refreshes after 3 and 5 (8 in three parts).
    "dynnibal": (2 * N, 4 * 30),
    "auto-refresh": (0, 0),  # only when the meter finds it stale
    "corrected": (0, 0),
    "staged": (0, 0),  # it embeds once, on the way
    "corrected-subset": (0, 0),
    "stale-rerank": (0, 0),
}
CORRECTORS = {"corrected", "staged", "corrected-subset", "stale-rerank"}


@pytest.fixture(params=sorted(strategies()))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_list_is_what_the_docs_promise() -> None:
    assert set(strategies()) == set(COST)


@pytest.mark.parametrize("sampling", ["top-k", "gumbel"])
@pytest.mark.parametrize("uniform", [0, 3])
def test_mines_distinct_rows_that_are_not_positives(name: str, sampling: str, uniform: int) -> None:
    negatives, queries = small_negatives(name, K, uniform, sampling=sampling), batch()
    rows = encoded_rows(negatives, queries)
    assert rows.shape == (B, 0 if name == "in-batch" else K + uniform)
    assert not (rows[:, :, None] == queries.positives[:, None, :]).any()
    if rows.numel():
        assert rows.min() >= 0
        assert rows.max() < N
    # Uniform company may meet what another strategy finds hard; uniform draws are one draw.
    for row in (rows if name == "uniform" else rows[:, :K]).tolist():
        assert len(set(row)) == len(row)


def test_filters_and_given_negatives_keep_the_contract(name: str) -> None:
    pairs = np.array([[10, 1], [10, 7], [10, 8], [12, 20]])  # 1 is a positive of query 10
    given = {"given": ByQuery(pairs, queries=15), "given_count": 2}
    views_all = find_strategy(name).views_all
    filters = Filters(range_min=1) if views_all else Filters()
    negatives, queries = small_negatives(name, K, filters=filters, **given), batch()
    rows = encoded_rows(negatives, queries)
    assert rows.shape == (B, 2 + (0 if name == "in-batch" else K))
    assert not ((rows[:, :, None] == queries.positives[:, None, :]).any(dim=2) & (rows >= 0)).any()
    for row in rows[:, :-2].tolist():
        assert len(set(row)) == len(row)
    drawn = [set(row) for row in rows[:, -2:].tolist()]
    assert drawn == [{7, 8}, {-1}, {20, -1}, {-1}, {-1}]  # where there are fewer, none
    assert (negatives.mine(queries).dropped is not None) == views_all
    if views_all:  # the hardest of each query is skipped, the others move up
        plain = small_miner(name).mine(queries, K)
        assert torch.equal(rows[:, : K - 1], plain[:, 1:])
    alone = Queries(*(t[2:3] for t in queries[:3]), step=queries.step)
    assert torch.equal(encoded_rows(negatives, alone), rows[2:3])


@pytest.mark.parametrize("sampling", ["top-k", "gumbel"])
def test_a_query_draws_the_same_alone_or_in_company(name: str, sampling: str) -> None:
    negatives, queries = small_negatives(name, K, 2, sampling=sampling), batch()
    alone = Queries(*(t[2:3] for t in queries[:3]), step=queries.step)
    assert torch.equal(encoded_rows(negatives, alone), encoded_rows(negatives, queries)[2:3])


def test_another_step_draws_anew_only_where_something_is_drawn(name: str) -> None:
    miner = small_miner(name, steps=400)  # the subset rotates every 400 / 80 steps
    same = torch.equal(miner.mine(batch(1), K), miner.mine(batch(2), K))
    assert same == (name != "uniform")


def test_the_loss_is_finite_and_moves_only_the_miners_weights(name: str) -> None:
    miner: Miner = small_miner(name)
    vectors = torch.randn(B, D, requires_grad=True)
    queries = batch()._replace(vectors=vectors, scale=20.0)
    fresh = torch.randn(9, D, requires_grad=True)
    loss = miner.loss(queries, fresh, torch.arange(9), None)
    assert loss.shape == ()
    assert torch.isfinite(loss)
    weights = list(miner.parameters())
    assert bool(weights) == (name in CORRECTORS)
    if weights:
        loss.backward()
        assert any(w.grad is not None and w.grad.abs().sum() > 0 for w in weights)
    assert vectors.grad is None
    assert fresh.grad is None


def test_refresh_reports_what_it_embeds(name: str) -> None:
    asked: list[int] = []

    def embed(rows: torch.Tensor) -> torch.Tensor:
        asked.append(len(rows))
        return torch.randn(len(rows), D)

    miner = find_strategy(name).build(small_materials())
    miner.begin(STEPS)
    totals = [miner.refresh(step, embed) for step in range(1, STEPS + 1)]
    assert sum(t.refreshed + t.sampled + t.first for t in totals) == sum(asked)
    first = [step for step, t in enumerate(totals, start=1) if t.first]
    assert first == ([4] if name == "staged" else [])  # half of 8 steps
    assert (sum(t.refreshed for t in totals), sum(t.sampled for t in totals)) == COST[name]
    assert miner.refresh(STEPS + 1, embed) == Embedded()


def test_view_shows_what_is_searched(name: str) -> None:
    made = small_materials()
    view = mining(find_strategy(name).build(made), made).view(torch.tensor([4, 2]))
    if name in ("in-batch", "uniform", "stochastic"):  # the last holds a part of the corpus
        assert view is None
        return
    assert view is not None
    assert torch.equal(view.stale, made.cache[torch.tensor([4, 2])])
    assert (view.corrected is not None) == (name in CORRECTORS | {"dynnibal"})


@pytest.mark.parametrize("mapped", [False, True])
def test_ranks_the_whole_corpus_by_each_view_and_changes_nothing(
    name: str, mapped: bool, tmp_path: Path
) -> None:
    made = small_materials()
    if mapped and find_strategy(name).cache not in ("rewritten", "later"):  # those are in memory
        made = small_materials(buffer=on_disk(made.buffer, tmp_path))
    miner = mining(find_strategy(name).build(made), made)
    with torch.no_grad():
        for weight in miner.parameters():  # from the identity to something
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    queries = batch()
    fresh = torch.randn(9, D, generator=torch.Generator().manual_seed(2))
    miner.loss(queries, fresh, torch.arange(9), None)  # writes to a memory
    before, state = miner.mine(queries, K), torch.get_rng_state()
    ranked, view = miner.ranked(queries.vectors, 20), miner.view(torch.arange(N))
    assert (ranked is None) == (view is None)
    assert torch.equal(miner.mine(queries, K), before)
    assert torch.equal(torch.get_rng_state(), state)
    if ranked is None or view is None:
        return
    for found, vectors in zip(ranked[:2], view[:2], strict=True):
        assert (found is None) == (vectors is None)
        if found is not None:
            assert torch.equal(found.rows, (queries.vectors @ vectors.T).topk(20).indices)


def on_disk(buffer: TargetBuffer, folder: Path) -> TargetBuffer:
    """Write a buffer to a file that is mapped, as `--mapped` leaves it."""
    data = np.memmap(folder / "buffer", np.float32, "w+", shape=(N, D))
    data[:] = buffer[torch.arange(N)].numpy()
    return TargetBuffer([torch.from_numpy(data)], mapped=True)


def test_too_many_for_the_corpus_is_an_error(name: str) -> None:
    if name != "in-batch":
        with pytest.raises(InputError):
            small_miner(name).mine(batch(), N)


def test_an_unknown_strategy_lists_those_there_are() -> None:
    with pytest.raises(InputError, match=r"unknown strategy 'fresh'; choose from staged.*in-batch"):
        find_strategy("fresh")


def test_uniform_draws_every_target_equally_often() -> None:
    miner = small_miner("uniform")
    many = Queries(torch.zeros(4000, D), torch.arange(4000), torch.full((4000, 1), -1), 0)
    counts = torch.bincount(miner.mine(many, 3).flatten(), minlength=N).float()
    # 12,000 draws over 60 targets: 200 each, standard deviation about sqrt(200) = 14.
    assert (counts - 200).abs().max() < 5 * 14.2
