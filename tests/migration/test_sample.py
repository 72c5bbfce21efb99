import numpy as np
import pytest

from unstale.errors import InputError
from unstale.migration.sample import choose
from unstale.migration.settings import MigrateSettings


def test_the_sample_has_its_size_no_row_twice_and_a_fifth_held_out() -> None:
    rows, held = choose(500, 150, seed=3)
    assert len(np.unique(rows)) == 150
    assert len(held) == 30
    assert np.isin(held, rows).all()
    assert (np.diff(rows) > 0).all()
    again, held_again = choose(500, 150, seed=3)
    assert (rows == again).all()
    assert (held == held_again).all()


@pytest.mark.parametrize(
    ("fraction", "count", "message"),
    [
        (0.001, None, "a sample of 10 of 10000 targets is too small: vectors of width 800"),
        (None, 99, "need at least 100"),  # 800 / 10 to fit to, and 20 held out
        (1.5, None, "at most 1, got 1.5"),
        (None, 10_001, "cannot sample 10001 of 10000"),
        (0.1, 100, "by one flag, not by --fraction 0.1 and --count 100"),
    ],
)
def test_a_sample_that_cannot_be_is_refused(fraction, count, message: str) -> None:
    with pytest.raises(InputError, match=message):
        MigrateSettings(fraction=fraction, count=count).sizes(10_000, 800)
    assert MigrateSettings(count=100).sizes(10_000, 800) == (100, 0)
