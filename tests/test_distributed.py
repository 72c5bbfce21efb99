"""What process 0 does for all: its result reaches the others, and so does its error, at once."""

from pathlib import Path

import pytest
from tests.test_processes import torchrun

_FAILS = """
import sys, time
from pathlib import Path
from unstale.distributed import first_alone, on_first, rank, start
from unstale.errors import InputError, RunError

class Unpicklable(RuntimeError):
    def __init__(self, one, two):
        super().__init__(f"{one}{two}")

def fail(error):
    if rank() == 0:
        raise error
    return "not for this process"

start("cpu")
assert on_first(lambda: f"of process {rank()}") == "of process 0"
said = []
for error in (InputError("a wrong flag"), OSError(28, "disk full"), Unpicklable(1, 2)):
    began = time.monotonic()
    try:
        on_first(lambda: fail(error))
    except Exception as found:
        said.append(f"{type(found).__name__}: {found}")
    try:
        with first_alone():
            fail(error)
    except Exception as found:
        said.append(f"{type(found).__name__}: {found}")
    assert time.monotonic() - began < 5
with first_alone():
    said.append("together again")
Path(sys.argv[1], f"{rank()}").write_text("\\n".join(said))
"""


@pytest.mark.timeout(120)
def test_an_error_of_process_0_is_that_of_all_at_once(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(_FAILS)
    torchrun(2, str(script), str(tmp_path), timeout=100)
    first, second = ((tmp_path / name).read_text().splitlines() for name in "01")
    assert (
        first[:4]
        == second[:4]
        == 2 * ["InputError: a wrong flag"] + 2 * ["OSError: [Errno 28] disk full"]
    )
    assert first[4:6] == 2 * ["Unpicklable: 12"]
    assert all(
        line.startswith("RunError: another process of this job ended") for line in second[4:6]
    )
    assert first[6:] == second[6:] == ["together again"]
