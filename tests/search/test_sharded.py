"""A search in parts, in real processes: as near to the exact one as a search of the whole."""

from pathlib import Path

import pytest
from tests.test_processes import torchrun

SCRIPT = str(Path(__file__).with_name("in_parts.py"))


@pytest.mark.parametrize(
    ("mode", "promise", "count"),
    [
        ("rolling", 0.99, 2),  # most of the time is that of starting processes
        pytest.param("rolling", 0.99, 4, marks=pytest.mark.slow),
        pytest.param("ivf", 0.95, 4, marks=pytest.mark.slow),
    ],
)
def test_the_promise_holds_over_processes(
    mode: str, promise: float, count: int, tmp_path: Path
) -> None:
    torchrun(count, SCRIPT, mode, str(tmp_path / "held"))
    assert float((tmp_path / "held").read_text()) >= promise
