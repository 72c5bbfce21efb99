"""A signal ends a command with a line that says so, and what it made for itself is removed."""

import signal
import sys
from types import FrameType

_SOON = 0.5  # seconds


class Terminated(KeyboardInterrupt):
    """Report SIGTERM, as KeyboardInterrupt reports Ctrl+C: nothing takes it for an error."""


def obey_signals() -> None:
    """Let SIGINT and SIGTERM be raised in the main thread."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)


def obeyed() -> None:
    """Raise nothing more: the command has ended."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
    signal.signal(signal.SIGALRM, _again)
    signal.setitimer(signal.ITIMER_REAL, _SOON, _SOON)
    raise Terminated


def _again(number: int, frame: FrameType | None) -> None:
    """Raise once more what Python dropped, as it does in a `__del__`; not while it cleans up."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, Terminated):
            return
        error = error.__context__
    raise Terminated
