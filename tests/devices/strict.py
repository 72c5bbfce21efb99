"""A second device without an accelerator: `strict`, which refuses operands of two devices.

Compiled once, into the user's cache; see `strict_device.cpp`.
"""

import os
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

NAME = "strict"
SOURCE = Path(__file__).with_name("strict_device.cpp")


@cache
def open_strict() -> Any:
    """Make `torch.device("strict")` known, and return the extension."""
    from torch.utils import cpp_extension

    place = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = place / "unstale-tests" / f"strict-{torch.__version__}"
    folder.mkdir(parents=True, exist_ok=True)
    cpp_extension.load(
        "strict_device",
        [str(SOURCE)],
        extra_cflags=["-O1"],
        build_directory=str(folder),
        is_python_module=False,
    )
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module())
    torch.utils.generate_methods_for_privateuse1_backend()
    # As on CUDA, a module that moves keeps its parameters, so that tied ones stay tied.
    torch.__future__.set_swap_module_params_on_conversion(True)
    return torch.ops.strict


def _module() -> ModuleType:
    """Return what stands as `torch.strict`, as `torch.cuda` does for CUDA."""
    module = ModuleType(f"torch.{NAME}")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.set_device = lambda device: None
    module.synchronize = lambda device=None: None
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.get_rng_state = lambda device=0: torch.get_rng_state()
    module.set_rng_state = lambda state, device=0: torch.set_rng_state(state)
    return module
