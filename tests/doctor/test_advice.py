"""Each rule of the advice, on findings that only that rule fits."""

from dataclasses import replace

import numpy as np
import pytest

from unstale.doctor.advice import Findings, Tried, advise, interval

FOUND = Findings(
    in_batch=Tried("in-batch", 100, 10.0, 0.40),
    default=Tried("staged", 60, 10.0, 0.42),
    before=0.3,
    gain=0.02,
    low=0.01,
    high=0.03,
    queries=200,
    batch_size=64,
    mined=12,
)


def test_few_steps_tell_nothing() -> None:
    short = replace(FOUND, default=replace(FOUND.default, steps=10))
    assert advise(short).startswith("The trial was too short for advice (10 steps")
    few = replace(FOUND, queries=5)
    assert advise(few).startswith("The trial was too short for advice (60 steps, 5 held-out")
    assert advise(replace(FOUND, mined=0)).startswith("The trial was too short for advice")


def test_two_perfect_rankings_tell_nothing() -> None:
    perfect = replace(FOUND, in_batch=replace(FOUND.in_batch, ndcg=0.995))
    assert "almost perfectly" not in advise(perfect)  # the other may be worse
    both = replace(perfect, default=replace(FOUND.default, ndcg=1.0))
    assert "perfectly (99.5 and 100.0 points of nDCG@10), so the trial cannot" in advise(both)


def test_a_clear_gain_is_named_with_its_interval() -> None:
    assert advise(FOUND) == (
        "Hard negatives pay: staged is ahead by 2.0 points of nDCG@10 (95% interval of the "
        "gain +1.0 to +3.0). Train with --mine-from 0.5."
    )


def test_a_clear_loss_advises_in_batch() -> None:
    worse = replace(FOUND, gain=-0.02, low=-0.03, high=-0.01)
    assert advise(worse).startswith("In-batch negatives are ahead by 2.0 points of nDCG@10")
    assert "Use --strategy in-batch" in advise(worse)


def test_without_a_clear_difference_the_default_stays() -> None:
    unclear = replace(FOUND, low=-0.01)
    assert advise(unclear).startswith("The trial shows no clear difference (95% interval")
    assert "Keep the default" in advise(unclear)


def test_the_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    random, inside = np.random.default_rng(0), 0
    for _ in range(1000):
        _, low, high = interval(random.normal(0.1, 1.0, 30))
        inside += low < 0.1 < high
    # 950 of 1000 on average, standard deviation sqrt(1000 * 0.95 * 0.05) = 7.
    assert abs(inside - 950) < 4 * 7


def test_one_query_says_nothing() -> None:
    assert interval(np.array([0.5])) == (pytest.approx(0.5), -1.0, 1.0)
