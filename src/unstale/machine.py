"""What does this machine have to spare?"""

from pathlib import Path

import torch

from unstale.errors import InputError


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that are free on a device, or None where that is unknown.

    In main memory no more than the process may still take (RLIMIT_DATA).
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = _bytes("/proc/meminfo", "MemAvailable")
    taken = _bytes("/proc/self/status", "VmData")
    if free is None or taken is None:
        return None
    import resource  # where there is /proc, there is this

    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return free if limit == resource.RLIM_INFINITY else max(0, min(free, limit - taken))


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
