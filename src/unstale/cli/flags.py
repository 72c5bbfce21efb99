"""From a dataclass of options to command line flags: `batch_size` becomes `--batch-size`."""

import dataclasses
from typing import get_type_hints

import docstring_parser
from jsonargparse import ActionYesNo, ArgumentParser


def add_flags(parser: ArgumentParser, kind: type) -> None:
    """Add a flag for each field; a field without a default is a positional argument.

    Types come from the annotations and help texts from the `Args` of the docstrings, those of
    parent classes included.
    """
    hints, helps = get_type_hints(kind), _helps(kind)
    for field in dataclasses.fields(kind):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        flag = f"--{field.name.replace('_', '-')}"
        help_text = helps[field.name]
        if default is dataclasses.MISSING:
            parser.add_argument(field.name, type=hints[field.name], help=help_text)
        elif hints[field.name] is bool:
            action = ActionYesNo(yes_prefix="", no_prefix="no-")
            parser.add_argument(flag, action=action, default=default, help=help_text)
        elif hints[field.name] == list[str]:
            parser.add_argument(flag, type=str, nargs="+", default=default, help=help_text)
        else:
            parser.add_argument(flag, type=hints[field.name], default=default, help=help_text)


def _helps(kind: type) -> dict[str, str]:
    helps: dict[str, str] = {}
    for parent in reversed(kind.__mro__[:-1]):
        parsed = docstring_parser.parse(parent.__doc__ or "")
        helps |= {p.arg_name: " ".join((p.description or "").split()) for p in parsed.params}
    return helps
