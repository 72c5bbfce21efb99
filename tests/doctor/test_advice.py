"""Each rule of the advice, on findings that only that rule fits."""

from dataclasses import replace

import pytest

from unstale.doctor.advice import Findings, Tried, advise

# A buffer that loses 40% in 100 steps; 20 steps of its 0.1 s pay for a refresh of 2 s.
FOUND = Findings(
    overlaps=[(0, 1.0), (50, 0.8), (100, 0.6)],
    step_seconds=0.1,
    refresh_seconds=20.0,
    tried=[Tried("corrected", 0.9, 0.2)],
)


def test_small_drift_needs_nothing() -> None:
    still = replace(FOUND, overlaps=[(0, 1.0), (100, 0.96)])
    assert advise(still) == "Drift is small: in 100 steps stale is enough (--strategy stale)."


def test_a_corrector_that_mends_is_advised() -> None:
    assert FOUND.recovered(FOUND.tried[0]) == pytest.approx(0.75)  # 0.3 of 0.4 lost
    assert advise(FOUND) == (
        "Correct (--strategy corrected): it recovered 75% of the loss, at 200 ms a step."
    )


@pytest.mark.parametrize(
    ("overlap", "seconds", "advised"),
    [
        (0.89, 0.15, "corrected-free"),  # 72.5%, less than 5 points below 75%, and quicker
        (0.87, 0.15, "corrected"),  # 67.5%: too little
        (0.9, 0.25, "corrected"),  # as much, but slower
    ],
)
def test_the_default_strategy_is_advised_where_it_did_best(overlap, seconds, advised) -> None:
    free = Tried("corrected-free", overlap, seconds)
    said = advise(replace(FOUND, tried=[free, *FOUND.tried]))
    assert f"(--strategy {advised})" in said


def test_a_corrector_that_does_not_mend_is_not() -> None:
    poor = replace(FOUND, tried=[Tried("corrected", 0.7, 0.2)])
    # It holds 90% until halfway between the readings of 100% and 80%.
    assert advise(poor) == (
        "Refresh about every 25 steps (--strategy auto-refresh): the corrector recovered only 25% "
        "of the loss."
    )
    harmful = replace(FOUND, tried=[Tried("corrected", 0.1, 0.2)])
    assert "recovered only 0%" in advise(harmful)


def test_refreshing_is_advised_where_it_is_cheaper() -> None:
    # Every 25 steps: 20 s are 0.8 s a step, correcting 0.1 s; 2 s are 0.08 s a step.
    cheap = replace(FOUND, refresh_seconds=2.0)
    assert advise(cheap).endswith("embedding this corpus again is cheaper than correcting it.")


@pytest.mark.parametrize(
    ("overlaps", "steps"),
    [
        ([(0, 1.0), (10, 0.95)], 10),
        ([(0, 1.0), (10, 0.5)], 2),
        ([(0, 1.0), (8, 0.95), (16, 0.85)], 12),
    ],
)
def test_when_a_buffer_holds_too_little(overlaps: list, steps: float) -> None:
    # 0.1 of the 0.5 lost in 10 steps; 0.05 of the 0.1 lost in the second 8 steps.
    assert replace(FOUND, overlaps=overlaps).holds == pytest.approx(steps)
