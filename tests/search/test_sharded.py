"""A search in parts, in real processes: as near to the exact one as a search of the whole."""

from pathlib import Path

import pytest
from tests.test_processes import torchrun

SCRIPT = str(Path(__file__).with_name("in_parts.py"))


@pytest.mark.parametrize(
    ("mode", "promise"),
    [("rolling", 0.99), pytest.param("ivf", 0.95, marks=pytest.mark.slow)],
)
def test_the_promise_holds_over_processes(mode: str, promise: float, tmp_path: Path) -> None:
    torchrun(4, SCRIPT, mode, str(tmp_path / "held"))
    assert float((tmp_path / "held").read_text()) >= promise
