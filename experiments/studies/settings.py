"""From `--set.NAME VALUE` to a study's settings: unknown names and wrong values are refused.

A study has one frozen dataclass of settings, declared as those of a training are: types in the
annotations, bounds by `setting(...)`, and a sentence for each in the docstring.
"""

from argparse import ArgumentError
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentParser

from unstale.cli.flags import helps
from unstale.declare import check_bounds
from unstale.errors import InputError

S = TypeVar("S")  # a frozen dataclass
_FLAGS = ("data", "seed", "train")  # settings that have a flag of their own
_WORDS = {int: "a whole number", float: "a number", str: "text", tuple: "a list"}


def read_settings(study: str, kind: type[S], given: Mapping[str, Any]) -> S:
    """Make a study's settings of what was given; refuse what it does not know or accept."""
    declared = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    about, hints = helps(kind), get_type_hints(kind)  # type: ignore[arg-type]
    if unknown := sorted(given.keys() - declared.keys()):
        known = "".join(f"\n  {_describe(each, about[each.name])}" for each in declared.values())
        takes = f"it takes {', '.join(sorted(declared))}:{known}"
        raise InputError(f"{study} has no setting {', '.join(unknown)}; {takes}")
    for name, each in declared.items():
        required = each.default is MISSING and each.default_factory is MISSING
        if name not in given and required:
            raise InputError(f"{study} needs {_flag(name)}: {about[name]}")
    values = {name: _convert(study, name, value, hints[name]) for name, value in given.items()}
    settings = kind(**values)
    check_bounds(settings, _flag)
    return settings


def _convert(study: str, name: str, value: Any, hint: Any) -> Any:  # noqa: ANN401
    """Convert a value to the type of its setting, as the command line does with its own flags."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument(f"--{name}", type=hint)
    try:
        return parser.parse_object({name: value})[name]
    except ArgumentError:
        raise InputError(
            f"{_flag(name)} {value}: expected {_expected(hint)}, for {study}"
        ) from None


def _expected(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """Say in words what a type accepts."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(inner)}"
    if origin is tuple:
        return "a list of numbers, as in [0.1,0.2]"
    if origin is not None and issubclass(origin, Mapping):
        deep = get_origin(inner[1]) is not None
        return (
            'a mapping of mappings, as in {"LABEL": {"NAME": VALUE}}'
            if deep
            else 'a mapping, as in {"NAME": VALUE}'
        )
    if inner:  # a union
        return " or ".join(_expected(each) for each in inner if each is not NoneType)
    return _WORDS[hint]


def _describe(declared: Field[Any], about: str) -> str:
    shown = "" if declared.default in (MISSING, None, "") else f" (default {declared.default})"
    return f"{_flag(declared.name)}: {about}{shown}"


def _flag(name: str) -> str:
    return f"--{name}" if name in _FLAGS else f"--set.{name}"
