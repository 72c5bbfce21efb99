"""Run an `unstale` command on the strict device: python -m tests.devices.on_strict COMMAND ...

Under torchrun the processes talk over a group that refuses tensors of the CPU.
"""

import os
import sys

from tests.devices.strict import NAME, open_strict

if __name__ == "__main__":
    open_strict()
    os.environ["ACCELERATE_TORCH_DEVICE"] = f"{NAME}:0"  # how accelerate learns of a new device
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from tests.devices.strict_group import join

        join()
    from unstale.cli.main import main

    sys.exit(main(sys.argv[1:]))
