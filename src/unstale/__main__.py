"""The program `unstale`: it answers Ctrl+C from its first moment on, while it is still loading."""

import os
import signal
import sys
from types import FrameType


def _stop(number: int, frame: FrameType | None) -> None:
    os.write(2, b"unstale: interrupted\n")
    os._exit(128 + number)


def main() -> int:
    """Load the command line, which takes a moment, and run it."""
    signal.signal(signal.SIGINT, _stop)  # until `obey_signals`
    signal.signal(signal.SIGTERM, _stop)
    from unstale.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
