"""`unstale completion`."""

from unstale.cli.options_inspect import CompletionFlags


def run(chosen: CompletionFlags) -> None:
    """Print the script; it is made of the same parser that reads the command line."""
    from unstale.cli.main import build_parser  # not above: main imports the commands by name

    # One of its own: a parser that made a script cannot parse any more.
    print(build_parser().get_completion_script(f"shtab-{chosen.shell}"))
