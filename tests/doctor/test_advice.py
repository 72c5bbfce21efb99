"""Each rule of the advice, on findings that only that rule fits."""

from dataclasses import replace

import pytest

from unstale.doctor.advice import Findings, advise

# A cache that loses 40% in 100 steps, of which a corrector recovers three quarters.
FOUND = Findings(
    overlaps=[(50, 0.8), (100, 0.6)],
    corrected=0.9,
    step_seconds=0.2,
    in_batch_seconds=0.1,
    refresh_seconds=20.0,
    batch_size=64,
)


def test_few_steps_tell_nothing() -> None:
    short = replace(FOUND, overlaps=[(5, 0.8), (10, 0.6)])
    assert advise(short).startswith("Only 10 steps fitted into the time, too few for advice:")


def test_small_drift_needs_nothing() -> None:
    still = replace(FOUND, overlaps=[(50, 0.98), (100, 0.96)])
    assert advise(still) == (
        "Drift is small: after 100 steps a stale cache still holds 96% of the true top 10. Keep "
        "the default strategy."
    )


def test_a_corrector_that_recovers_is_kept() -> None:
    assert FOUND.recovered == pytest.approx(0.75)  # 0.3 of 0.4 lost
    assert advise(FOUND) == (
        "Keep the default, --strategy corrected-free: it recovered 75% of what a stale cache lost."
    )


def test_a_corrector_that_does_not_is_not() -> None:
    # It holds 90% until halfway between the start and the reading of 80%.
    assert advise(replace(FOUND, corrected=0.7)) == (
        "The corrector recovered only 25% of what a stale cache lost: embed the corpus again about "
        "every 25 steps with --strategy auto-refresh."
    )
    assert "recovered only 0%" in advise(replace(FOUND, corrected=0.1))


@pytest.mark.parametrize(
    ("overlaps", "steps"),
    [([(10, 0.95)], 10), ([(10, 0.5)], 2), ([(8, 0.95), (16, 0.85)], 12)],
)
def test_when_a_cache_holds_too_little(overlaps: list, steps: float) -> None:
    # 0.1 of the 0.5 lost in 10 steps; 0.05 of the 0.1 lost in the second 8 steps.
    assert replace(FOUND, overlaps=overlaps).holds == pytest.approx(steps)
