"""A processor that announces AMX and dies of it: its flags are a file, and the probe dies."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unstale import bfloat16
from unstale.bfloat16 import LIMIT, VARIABLE

ROOT = Path(__file__).parents[1]
DIES = "import os, signal\nos.kill(os.getpid(), signal.SIGILL)"
DIES_OF_AMX = f"import os\nif os.environ.get({VARIABLE!r}) != {LIMIT!r}: exec({DIES!r})"
WITH_AMX = "processor\t: 0\nflags\t\t: fpu avx512_bf16 amx_bf16 avx512_fp16 amx_tile amx_int8\n"
WITHOUT_AMX = "processor\t: 0\nmodel name\t: amx_tile\nflags\t\t: fpu avx512_bf16 avx512_fp16\n"


@contextmanager
def processor(folder: Path, probe: str = DIES_OF_AMX, flags: str = WITH_AMX) -> Iterator[None]:
    """Replace the processor's flags and the program that the probe runs, in this process."""
    (folder / "cpuinfo").write_text(flags)
    bfloat16.killed_by.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bfloat16, "_CPUINFO", folder / "cpuinfo")
        patch.setattr(bfloat16, "_PROGRAM", probe)
        patch.setattr(os, "environ", _without_limit())  # a copy: oneDNN reads the real one
        yield
    bfloat16.killed_by.cache_clear()


def run_on_processor(
    folder: Path, script: str, probe: str = DIES_OF_AMX
) -> subprocess.CompletedProcess[str]:
    """Run a script in a new Python, on a processor that announces AMX."""
    (folder / "cpuinfo").write_text(WITH_AMX)
    setup = (
        "from pathlib import Path; from unstale import bfloat16; "
        f"bfloat16._CPUINFO = Path({str(folder / 'cpuinfo')!r}); bfloat16._PROGRAM = {probe!r}"
    )
    return subprocess.run(
        [sys.executable, "-c", f"{setup}\n{script}"],
        env=_without_limit(), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _without_limit() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != VARIABLE}
