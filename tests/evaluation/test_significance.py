import numpy as np
import pytest
from scipy import stats

from unstale.evaluation.significance import (
    gap_interval_over_seeds,
    gap_recovered,
    paired_p_value,
    seed_difference,
)
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


def of_means(*means: float) -> dict:
    """A run a seed whose queries are scattered around a mean."""
    return {seed: mean + np.array([-0.1, 0.0, 0.1]) for seed, mean in enumerate(means)}


def test_difference_over_seeds_by_hand() -> None:
    # Differences 0.1, 0.2 and 0.3: mean 0.2, standard error 0.1 / sqrt(3) = 0.057735. The quantile
    # of t with two degrees of freedom is 4.302653: half the interval is 0.248414.
    found = seed_difference(of_means(0.5, 0.7, 0.9), of_means(0.4, 0.5, 0.6))
    assert found is not None
    assert found[:3] == pytest.approx((0.2, 0.2 - 0.248414, 0.2 + 0.248414), abs=1e-6)
    # t = 2 sqrt(3); with two degrees of freedom p = 1 - t / sqrt(2 + t^2) = 1 - sqrt(12 / 14).
    assert found.p == pytest.approx(1 - (12 / 14) ** 0.5)
    assert found.seeds == 3


def test_difference_over_seeds_pairs_what_both_have() -> None:
    luck = of_means(0.2, 0.9, 0.4)
    found = seed_difference({s: v + 0.1 for s, v in luck.items()}, luck)
    assert found is not None
    assert found[:3] == pytest.approx((0.1, 0.1, 0.1))  # whatever a seed does to both
    assert found.p < 1e-6
    same = seed_difference(luck, luck)
    assert same is not None
    assert (same.mean, same.p) == (0, 1)
    fewer = seed_difference({s: luck[s] + 0.1 for s in (1, 2)}, luck)
    assert fewer is not None
    assert fewer.mean == pytest.approx(0.1)
    assert fewer.seeds == 2
    assert seed_difference({1: luck[1]}, luck) is None  # one seed says nothing of others


def test_gap_over_seeds_by_hand() -> None:
    # The gap is 0.4 in every seed, and 0.1, 0.2 and 0.3 of it are gained: the interval is that of
    # the difference above over 0.4.
    floor, ceiling = of_means(0.4, 0.5, 0.6), of_means(0.8, 0.9, 1.0)
    found = gap_interval_over_seeds(of_means(0.5, 0.7, 0.9), floor, ceiling)
    assert found == pytest.approx((0.5 - 0.621035, 0.5 + 0.621035), abs=1e-5)
    assert gap_interval_over_seeds(ceiling, floor, ceiling) == pytest.approx((1, 1))
    assert gap_interval_over_seeds(floor, floor, ceiling) == pytest.approx((0, 0))


def test_a_ratio_at_an_end_of_the_gap_is_just_not_rejected() -> None:
    method, floor, ceiling = (
        (0.57, 0.62, 0.55, 0.6),
        (0.5, 0.51, 0.49, 0.5),
        (0.6, 0.62, 0.59, 0.63),
    )
    found = gap_interval_over_seeds(of_means(*method), of_means(*floor), of_means(*ceiling))
    assert found is not None
    for ratio in found:
        left = np.subtract(method, floor) - ratio * np.subtract(ceiling, floor)
        assert stats.ttest_1samp(left, 0).pvalue == pytest.approx(0.05)
    inside = sum(found) / 2
    left = np.subtract(method, floor) - inside * np.subtract(ceiling, floor)
    assert stats.ttest_1samp(left, 0).pvalue > 0.05


def test_no_gap_over_seeds_where_they_leave_it_open() -> None:
    floor, method = of_means(0.5, 0.5, 0.5), of_means(0.55, 0.55, 0.55)
    assert gap_interval_over_seeds(method, floor, of_means(0.4, 0.6, 0.7)) is None
    assert gap_interval_over_seeds({0: method[0]}, floor, of_means(0.8, 0.9, 1.0)) is None


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
    over_seeds = summary["seed_difference"]["stale"]["corrected"]["recall@1"]
    assert over_seeds["mean"] == pytest.approx(mean["corrected"] - mean["stale"])
    assert over_seeds["low"] < over_seeds["mean"] < over_seeds["high"]
    assert summary["seed_difference"]["exhaustive"]["corrected"]["recall@1"] is None  # one seed
    assert summary["gap_recovered_seed_interval"] == {}
    assert summary["std"]["exhaustive"]["recall@1"] == 0
