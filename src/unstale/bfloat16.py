"""Does bfloat16 run on this processor?

Some virtual processors announce AMX and cannot execute it: oneDNN takes AMX for bfloat16, and the
process dies without a word. Only another process can find out, so a small program is run in one.
This module does not import torch: oneDNN reads its environment only once.
"""

import logging
import os
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from unstale.errors import InputError

VARIABLE = "ONEDNN_MAX_CPU_ISA"
LIMIT = "AVX512_CORE_FP16"  # the largest instruction set without AMX

_LOG = logging.getLogger(__name__)
# Tests replace these two, to make a healthy processor look like a broken one.
_CPUINFO = Path("/proc/cpuinfo")
# What a transformer does in a training step, large enough for oneDNN; it leaves no core dump.
_PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import torch
layer = torch.nn.Linear(64, 64)
with torch.autocast("cpu", torch.bfloat16):
    heads = layer(torch.randn(2, 4, 128, 64))
    mixed = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    scores = layer(mixed) @ heads.mT
scores.float().square().mean().backward()
"""
_FLOAT32 = "train in float32 (leave out bf16)"


def ensure_bfloat16() -> None:
    """Limit oneDNN to what the processor can execute, or raise an error if that is not possible.

    Nothing is run where the processor does not announce AMX or the user has set the limit. Call
    this before torch is imported: afterwards a limit may come too late, and a broken processor is
    an error that names the variable to set.
    """
    if os.environ.get(VARIABLE) or not _announces_amx():
        return
    cause = killed_by("")
    if cause is None:
        return
    found = f"bfloat16 does not run on this processor, which announces AMX: a probe died ({cause})"
    if killed_by(LIMIT) is not None:
        raise InputError(f"{found}, even with {VARIABLE}={LIMIT}; {_FLOAT32}")
    if "torch" in sys.modules:
        rule = f"set {VARIABLE}={LIMIT} in the environment before Python starts"
        raise InputError(f"{found}; {rule}, or {_FLOAT32}")
    os.environ[VARIABLE] = LIMIT
    _LOG.warning("%s; %s=%s is now set, and with it bfloat16 runs", found, VARIABLE, LIMIT)


@cache
def killed_by(limit: str) -> str | None:
    """Run bfloat16 in a process of its own; return the signal that killed it, or None."""
    environment = os.environ | ({VARIABLE: limit} if limit else {})
    probe = [sys.executable, "-P", "-c", _PROGRAM]  # -P: the working directory may hold a torch.py
    code = subprocess.run(probe, env=environment, capture_output=True, check=False).returncode
    return (signal.strsignal(-code) or f"signal {-code}") if code < 0 else None


def _announces_amx() -> bool:
    """Read the processor's flags; only Linux lists them, and only there is there a remedy."""
    try:
        return bool(re.search(r"^flags\b.*\bamx_", _CPUINFO.read_text("utf-8"), re.MULTILINE))
    except OSError:
        return False
