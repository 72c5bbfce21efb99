"""Run `unstale` commands on the strict device: python -m tests.devices.on_strict COMMANDS.json.

The file holds a list of command lines, by name. Under torchrun the processes talk over a group that
refuses tensors of the CPU. The exit codes, and what was said on the way, go to COMMANDS.done.json.
"""

import contextlib
import io
import json
import os
import sys
import traceback
from pathlib import Path

from tests.devices.strict import NAME, open_strict


def run_all(commands: dict[str, list[str]]) -> dict[str, tuple[int, str]]:
    """Run commands one after the other, in this process."""
    from unstale.cli.main import main

    done = {}
    for name, words in commands.items():
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            try:
                code = main(words)
            except Exception:
                code = 99
                said.write(traceback.format_exc())
        done[name] = code, said.getvalue()[-3000:]
        if code and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            break  # the others wait for this process: the job must end
    return done


if __name__ == "__main__":
    open_strict()
    os.environ["ACCELERATE_TORCH_DEVICE"] = f"{NAME}:0"  # how accelerate learns of a new device
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from tests.devices.strict_group import join

        join()
    path = Path(sys.argv[1])
    found = run_all(json.loads(path.read_text()))
    if os.environ.get("RANK", "0") == "0":
        path.with_suffix(".done.json").write_text(json.dumps(found))
    if bad := {name: said for name, (code, said) in found.items() if code}:
        sys.exit(f"{bad}")
    if "RANK" in os.environ:
        from torch import distributed

        distributed.destroy_process_group()
