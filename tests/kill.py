"""Kill a real process at a chosen moment.

A server that has only imported the package forks a child for each command: a fork of the tests'
own process would inherit locks that its threads hold. The child dies by SIGKILL as it calls some
function of the package for the n-th time, at its n-th file operation, or after some seconds.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"}
_TIMINGS = {"seconds", "steps_per_second"}  # what two equal runs may differ in


class Killer:
    """Start commands that do not survive."""

    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self.server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __call__(self, arguments: list[str], where: str, call: int) -> None:
        """Run a command that dies at the call-th call of `module:name` or `module:Class.name`."""
        status = self._ask(arguments, {"where": where, "call": call})
        assert os.WIFSIGNALED(status), f"it ended by itself: {os.waitstatus_to_exitcode(status)}"
        assert os.WTERMSIG(status) == signal.SIGKILL

    def after(self, arguments: list[str], seconds: float) -> bool:
        """Run a command for so long at most; tell whether it was killed before its end."""
        code = os.waitstatus_to_exitcode(self._ask(arguments, {"seconds": seconds}))
        assert code in (0, -signal.SIGKILL), code
        return code != 0

    def run(self, arguments: list[str], log: Path, operation: int | None = None) -> int:
        """Run a command, which dies at a file operation if asked to; return its status.

        What it says goes into a file.
        """
        death = {"log": str(log)} | ({"operation": operation} if operation else {})
        return os.waitstatus_to_exitcode(self._ask(arguments, death))

    def _ask(self, arguments: list[str], death: dict[str, Any]) -> int:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        environment = {"UNSTALE_CACHE": os.environ["UNSTALE_CACHE"]}
        request = [arguments, death, environment, str(Path.cwd())]
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())

    def close(self) -> None:
        """Let the server end."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.close()
        self.server.wait(20)
        self.server.stdout.close()


def _serve() -> None:
    import torch
    from lean import compile_templates_once, freeze_imports  # beside this file

    from unstale.cli.main import main

    torch.set_num_threads(1)
    compile_templates_once()
    for line in sys.stdin:
        arguments, death, environment, folder = json.loads(line)
        import_module(f"unstale.cli.{arguments[0]}")  # once, and not in every child
        freeze_imports()
        child = os.fork()
        if child == 0:
            os.environ |= environment
            os.chdir(folder)
            if log := death.pop("log", None):
                os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            os.dup2(2, 1)
            if "where" in death:
                _die_at(**death)
            if "operation" in death:
                _die_at_operation(death["operation"])
            status = 1
            try:
                status = main(arguments)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        print(_end(child, death.get("seconds")), flush=True)


def _end(child: int, seconds: float | None) -> int:
    """Wait for a child, and kill it once its seconds are over."""
    until = None if seconds is None else time.monotonic() + seconds
    while until is not None and time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    if until is not None:
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _die_at(where: str, call: int) -> None:
    module, _, path = where.partition(":")
    owner: Any = import_module(module)
    *classes, name = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    plain, left = getattr(owner, name), [call]

    @wraps(plain)  # a Trainer reads the signature
    def dying(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(*args, **kwargs)

    setattr(owner, name, dying)


def _die_at_operation(number: int) -> None:
    left = [number]

    def watch(event: str, _: tuple[Any, ...]) -> None:
        if event in EVENTS:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def results(run: Path) -> dict[str, Any]:
    """Read results.json without what depends on the clock."""
    return _timeless(json.loads((run / "results.json").read_text()))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in _TIMINGS}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def weights(run: Path) -> dict[str, bytes]:
    """Read every weight that a run ended with."""
    folders = [f for name in ("model", "reader") for f in (run / name).rglob("*.safetensors")]
    files = [*folders, run / "corrector.safetensors"]
    return {str(f.relative_to(run)): f.read_bytes() for f in files if f.exists()}


if __name__ == "__main__":
    _serve()
