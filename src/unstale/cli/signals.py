"""A signal ends a command with a line that says so, and what it made for itself is removed."""

import signal
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Report SIGTERM, as KeyboardInterrupt reports Ctrl+C: nothing takes it for an error."""


def obey_signals() -> None:
    """Let SIGINT and SIGTERM be raised in the main thread."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
    raise Terminated
