import numpy as np
import pytest
from scipy import stats

from unstale.evaluation.significance import gap_recovered, paired_p_value
from unstale.report.summary import summarise


def made(mean: float, seeds: int, queries: int = 400, spread: float = 0.1) -> dict:
    random = np.random.default_rng(int(1000 * mean))
    return {s: random.normal(mean, spread, queries) for s in range(seeds)}


def test_gap_by_hand() -> None:
    # Constant values: (0.7 - 0.5) / (0.9 - 0.5) = 0.5, with no doubt about it.
    flat = [{0: np.full(50, v)} for v in (0.7, 0.5, 0.9)]
    assert gap_recovered(*flat) == pytest.approx((0.5, 0.5, 0.5))


def test_no_gap_no_value() -> None:
    method, floor = made(0.5, 3), made(0.5, 3)
    assert gap_recovered(method, floor, {s: v.copy() for s, v in floor.items()}) is None


def test_the_ends_of_the_gap_recover_none_and_all_of_it() -> None:
    floor, ceiling = made(0.5, 3), made(0.6, 3)
    assert gap_recovered(floor, floor, ceiling) == (0, 0, 0)
    assert gap_recovered(ceiling, floor, ceiling) == (1, 1, 1)


def test_a_shift_that_all_runs_of_a_seed_share_is_no_doubt() -> None:
    # A lucky data order lifts the whole seed: seed by seed the gap is recovered by half.
    luck = {0: 0.0, 1: 0.1, 2: -0.2}
    lifted = [{s: np.full(50, v + luck[s]) for s in luck} for v in (0.7, 0.5, 0.9)]
    assert gap_recovered(*lifted) == pytest.approx((0.5, 0.5, 0.5))


def test_the_order_of_seeds_does_not_matter() -> None:
    runs = [made(mean, 3) for mean in (0.58, 0.5, 0.6)]
    turned = [runs[0], *(dict(reversed(v.items())) for v in runs[1:])]
    assert gap_recovered(*turned) == pytest.approx(gap_recovered(*runs))


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    random, hits, seeds = np.random.default_rng(0), 0, 8
    for _ in range(40):
        easy = random.normal(0, 0.3, 300)  # queries differ more than methods do
        # A seed moves all queries of its run. Its mean over 8 has a deviation of 0.03 / sqrt(8),
        # about 0.011; that of the queries' noise is 0.1 / sqrt(300 * 8), 0.002.
        method, floor, ceiling = (
            {
                s: m + easy + random.normal(0, 0.1, 300) + random.normal(0, 0.03)
                for s in range(seeds)
            }
            for m in (0.58, 0.5, 0.6)
        )
        gap = gap_recovered(method, floor, ceiling, resamples=200)
        assert gap is not None
        hits += gap[1] <= 0.8 <= gap[2]
    # Percentiles of 8 seeds hold the truth a little less often than 95%, say 90: fewer than 31 of
    # 40 has a chance of 1%. Over queries alone the interval would be a fifth as wide.
    assert hits >= 31


def test_p_value_is_the_paired_t_tests() -> None:
    a, b = made(0.5, 2), made(0.52, 2)
    difference = (a[0] + a[1]) / 2 - (b[0] + b[1]) / 2
    assert paired_p_value(a, b) == pytest.approx(stats.ttest_1samp(difference, 0).pvalue)
    assert paired_p_value(a, a) is None


def test_summary_puts_it_together() -> None:
    values = {
        name: {s: {"recall@1": v} for s, v in made(mean, seeds).items()}
        for name, mean, seeds in [("stale", 0.5, 3), ("corrected", 0.6, 3), ("exhaustive", 0.61, 1)]
    }
    summary = summarise(values)
    assert summary["seeds"] == {"stale": [0, 1, 2], "corrected": [0, 1, 2], "exhaustive": [0]}
    mean = {s: np.mean([v["recall@1"] for v in by.values()]) for s, by in values.items()}
    expected = (mean["corrected"] - mean["stale"]) / (mean["exhaustive"] - mean["stale"])
    assert summary["gap_recovered"]["corrected"]["recall@1"] == pytest.approx(expected)
    low, high = summary["gap_recovered_interval"]["corrected"]["recall@1"]
    assert low < expected < high
    assert summary["gap_recovered"]["exhaustive"]["recall@1"] == 1
    assert set(summary["interval_seeds"].values()) == {1}  # exhaustive has one
    assert summary["gap_recovered"]["stale"]["recall@1"] == 0
    assert summary["p_value"]["stale"]["corrected"]["recall@1"] < 1e-6
    assert "stale" not in summary["p_value"]["stale"]
    assert summary["std"]["exhaustive"]["recall@1"] == 0
