"""What does this machine have to spare?"""

from math import inf
from pathlib import Path

import torch

from unstale.errors import InputError

_GROUP = Path("/sys/fs/cgroup")  # of the container that this runs in, if it is one (version 2)


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that are free on a device, or None where that is unknown.

    In main memory no more than the process may still take (RLIMIT_DATA), and no more than its
    container has left.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = _bytes("/proc/meminfo", "MemAvailable")
    taken = _bytes("/proc/self/status", "VmData")
    if free is None or taken is None:
        return None
    import resource  # where there is /proc, there is this

    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    own = inf if limit == resource.RLIM_INFINITY else limit - taken
    return int(max(0, min(free, own, _left_in_container())))


def _left_in_container() -> float:
    """Return what a control group leaves; pages of files count as free, for they can be dropped."""
    try:
        most, used = (int((_GROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        rows = (_GROUP / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # no such group, or "max": no limit
        return inf
    cached = [int(row.split()[1]) for row in rows if row.startswith("inactive_file ")]
    return float(most - used + sum(cached))


def check_fits(what: str, size: int, device: torch.device, way: str) -> None:
    """Refuse what needs more bytes than are free on a device, and name a way out."""
    free = free_memory(device)
    if free is not None and size > free:
        raise InputError(f"{what} needs {size / 1e9:.3g} GB, and {free / 1e9:.3g} are free; {way}")


def allow_tf32(device: torch.device, asked: bool | None = None) -> None:
    """Let a CUDA device round the factors of its float32 products to TF32, unless told not to.

    Tensor cores then do them, several times as fast. `asked` is a user's own choice, if any.
    """
    if device.type == "cuda" and asked is not False:
        torch.set_float32_matmul_precision("high")


def _bytes(path: str, name: str) -> int | None:
    """Read a size from a table of the kernel's, in bytes."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
        found = next(line for line in lines if line.startswith(f"{name}:"))
    except (OSError, StopIteration):
        return None
    return int(found.split()[1]) * 1024
