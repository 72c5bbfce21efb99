"""The one error that means: the caller's input is wrong, and here is what and where."""


class InputError(ValueError):
    """Report a rule that the caller's input breaks, with the file, the line and the value.

    The command line prints its message without a traceback; anything else is a bug of ours.
    """
