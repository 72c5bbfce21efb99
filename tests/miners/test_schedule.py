"""With the paper's sizes the counters give the paper's figures."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.refreshes import run_through

from unstale.buffer.buffer import TargetBuffer
from unstale.errors import InputError
from unstale.miners import Embedded, Schedule
from unstale.miners.dynnibal import Dynnibal, low_rank_ridge
from unstale.miners.exhaustive import Refreshed
from unstale.miners.stochastic import Stochastic

NQ, MARCO, WIKI = 21_000, 8_800, 28_000  # a thousandth of the paper's targets


@pytest.mark.parametrize(
    ("strategy", "targets", "steps", "settings", "figure"),
    [
        ("exhaustive", NQ, 400, {"refreshes": 80}, (1_680_000, 0)),  # "1.68B"
        ("stochastic", NQ, 400, {"refreshes": 80, "subset_size": 1_000}, (80_000, 0)),  # "80M"
        ("two-round", NQ, 400, {}, (21_000, 0)),
        # Two full refreshes, "42M"; and 80 times a twentieth as a sample.
        ("dynnibal", NQ, 400, {"refreshes": 80, "full_refreshes": 2}, (42_000, 80 * 1_050)),
        ("corrected", NQ, 400, {}, (0, 0)),
        ("exhaustive", MARCO, 400, {"refreshes": 40}, (352_000, 0)),  # "352M"
        ("exhaustive", WIKI, 200, {"refreshes": 40}, (1_120_000, 0)),  # augmented: "1.1B"
    ],
)
def test_the_papers_counts(
    strategy: str, targets: int, steps: int, settings: dict[str, int], figure: tuple[int, int]
) -> None:
    # A hundredth of its steps: as many refreshes as it makes.
    found = run_through(strategy, targets, steps, **settings)
    assert (found.refreshed, found.sampled) == figure


def test_a_number_of_refreshes_is_a_schedule() -> None:
    evenly, every = Schedule.evenly(80, 4_000), Schedule.parse("0-4000:50")
    assert [s for s in range(1, 4_001) if evenly.due(s)] == list(range(50, 4_001, 50))
    assert [s for s in range(1, 4_001) if every.due(s)] == list(range(50, 4_001, 50))


@given(st.integers(0, 100), st.integers(1, 500))
def test_evenly_gives_what_is_asked_or_one_a_step(refreshes: int, steps: int) -> None:
    schedule = Schedule.evenly(refreshes, steps)
    assert schedule.count(steps) == min(refreshes, steps)
    assert not schedule.due(0)
    if refreshes:
        assert schedule.due(steps)


def test_two_rounds_meet_halfway() -> None:
    schedule = Schedule.inside(1, 300)
    assert [s for s in range(1, 301) if schedule.due(s)] == [150]


@pytest.mark.parametrize(
    "text", ["", "500", "0-10", "10-5:2", "0-10:0", "0-10:2;", "a-b:c", "-1-5:2"]
)
def test_a_bad_schedule_is_named(text: str) -> None:
    with pytest.raises(InputError, match="bad refresh schedule"):
        Schedule.parse(text)


def test_exhaustive_searches_what_it_last_embedded() -> None:
    buffer, fresh = TargetBuffer([torch.zeros(10, 4)]), torch.randn(10, 4)
    miner = Refreshed(buffer, Schedule.parse("0-4:2"))
    assert miner.refresh(1, lambda rows: fresh[rows]).refreshed == 0
    assert torch.equal(buffer[torch.arange(10)], torch.zeros(10, 4))
    assert miner.refresh(2, lambda rows: fresh[rows]).refreshed == 10
    assert torch.equal(buffer[torch.arange(10)], fresh)


def test_stochastic_embeds_another_subset_each_time() -> None:
    stale, asked = torch.randn(100, 4), []
    miner = Stochastic(TargetBuffer([stale]), Schedule.parse("0-9:1"), size=20, seed=0)
    for step in (1, 2, 3):
        miner.refresh(step, lambda rows: asked.append(rows.clone()) or stale[rows])
    assert [len(set(rows.tolist())) for rows in asked] == [20, 20, 20]
    assert len({tuple(rows.tolist()) for rows in asked}) == 3


def test_dynnibal_recovers_a_low_rank_drift_from_a_sample() -> None:
    torch.manual_seed(0)
    stale = torch.randn(400, 12)
    drift = torch.randn(12, 3) @ torch.randn(3, 12) / 4
    fresh = stale + stale @ drift
    miner = Dynnibal(
        TargetBuffer([stale.clone()]),
        refits=Schedule.parse("0-10:5"),
        refreshes=Schedule.inside(0, 10),
        sample=60,
        rank=3,
        seed=0,
        ridge=1e-4,
    )
    assert miner.refresh(5, lambda rows: fresh[rows]) == Embedded(sampled=60)
    torch.testing.assert_close(miner.moved[torch.arange(400)], fresh, atol=2e-3, rtol=1e-3)


def test_the_regression_has_the_rank_it_is_given() -> None:
    torch.manual_seed(0)
    move = low_rank_ridge(torch.randn(50, 8), torch.randn(50, 8), rank=3, ridge=1e-2)
    assert torch.linalg.matrix_rank(move) == 3
