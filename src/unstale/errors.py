"""The errors that are not bugs of ours: wrong input, and a run that cannot continue."""


class InputError(ValueError):
    """Report a rule that the caller's input breaks, with the file, the line and the value.

    The command line prints its message without a traceback; anything else is a bug of ours.
    """


class RunError(RuntimeError):
    """Report why a run that began well had to stop, and from where it can be resumed.

    The command line prints its message without a traceback, too.
    """
