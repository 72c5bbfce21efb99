"""The settings of a study, declared: what each accepts, its default, and one sentence about it.

A study has one frozen dataclass of them. `--set.NAME VALUE` reaches each field.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar, final

from unstale.errors import InputError
from unstale.training.cells import parse_seeds

_FLAGS = ("data", "seed", "train")  # settings that have a flag of their own


S = TypeVar("S")  # a dataclass whose fields were made by the functions of this file


@final
@dataclass(frozen=True)
class Rule:
    """What a setting means and accepts."""

    about: str
    expected: str
    accepts: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value


def count(default: int | None, about: str, most: int | None = None) -> Any:  # noqa: ANN401
    """Declare how many there are of something."""
    limit = "at least 1" if most is None else f"from 1 to {most}"
    rule = Rule(
        about, f"a whole number, {limit}", lambda v: type(v) is int and 1 <= v <= (most or v)
    )
    return _declare(default, rule)


def seed(about: str) -> Any:  # noqa: ANN401
    """Declare the seed of everything random."""
    return _declare(
        0, Rule(about, "a whole number, at least 0", lambda v: type(v) is int and v >= 0)
    )


def seeds(default: tuple[int, ...], about: str) -> Any:  # noqa: ANN401
    """Declare several seeds, separated by commas on the command line."""
    rule = Rule(about, "whole numbers as in 0,1,2", lambda v: type(v) in (int, str), _seeds)
    return _declare(default, rule)


def positive(default: float | None, about: str) -> Any:  # noqa: ANN401
    """Declare a number above zero."""
    return _declare(default, Rule(about, "a number above 0", lambda v: _number(v) and v > 0, float))


def part(default: float, about: str) -> Any:  # noqa: ANN401
    """Declare a part of a whole."""
    return _declare(default, Rule(about, "a number from 0 to 1", _part, float))


def parts(default: tuple[float, ...], about: str) -> Any:  # noqa: ANN401
    """Declare a list of parts of a whole."""
    rule = Rule(
        about,
        "a list of numbers from 0 to 1, as in [0.1,0.2]",
        lambda v: type(v) in (list, tuple) and len(v) > 0 and all(map(_part, v)),
        lambda v: tuple(map(float, v)),
    )
    return _declare(default, rule)


def text(default: str, about: str) -> Any:  # noqa: ANN401
    """Declare a name, a path or a list in one string."""
    return _declare(default, Rule(about, "text", lambda v: type(v) is str))


def required_text(about: str) -> Any:  # noqa: ANN401
    """Declare a name or a path that has no default."""
    return _declare(MISSING, Rule(about, "text", lambda v: type(v) is str))


def choice(default: str, options: Sequence[str], about: str) -> Any:  # noqa: ANN401
    """Declare one of several words."""
    return _declare(default, Rule(about, f"one of {', '.join(options)}", lambda v: v in options))


def mapping(about: str) -> Any:  # noqa: ANN401
    """Declare values by name, of which there are none by default."""
    rule = Rule(about, 'a mapping, as in {"NAME": VALUE}', lambda v: type(v) is dict)
    return field(default_factory=dict, metadata={"rule": rule})


def mappings(about: str) -> Any:  # noqa: ANN401
    """Declare further mappings by name, of which there are none by default."""
    rule = Rule(
        about,
        'a mapping of mappings, as in {"LABEL": {"NAME": VALUE}}',
        lambda v: type(v) is dict and all(type(each) is dict for each in v.values()),
    )
    return field(default_factory=dict, metadata={"rule": rule})


def read(study: str, kind: type[S], given: Mapping[str, Any]) -> S:
    """Make a study's settings of what was given; refuse what it does not know or accept."""
    declared = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(given.keys() - declared.keys()):
        known = "".join(f"\n  {_describe(each)}" for each in declared.values())
        takes = f"it takes {', '.join(sorted(declared))}:{known}"
        raise InputError(f"{study} has no setting {', '.join(unknown)}; {takes}")
    for name, each in declared.items():
        optional = each.default is not MISSING or each.default_factory is not MISSING
        if name not in given and not optional:
            raise InputError(f"{study} needs {_flag(name)}: {_rule(each).about}")
    for name, value in given.items():
        rule = _rule(declared[name])
        if not rule.accepts(value):
            raise InputError(f"{_flag(name)} {value}: expected {rule.expected}, for {study}")
    return kind(**{name: _rule(declared[name]).convert(value) for name, value in given.items()})


def _declare(default: Any, rule: Rule) -> Any:  # noqa: ANN401
    return field(default=default, metadata={"rule": rule})


def _rule(declared: Field[Any]) -> Rule:
    rule: Rule = declared.metadata["rule"]
    return rule


def _describe(declared: Field[Any]) -> str:
    shown = "" if declared.default in (MISSING, None, "") else f" (default {declared.default})"
    return f"{_flag(declared.name)}: {_rule(declared).about}{shown}"


def _flag(name: str) -> str:
    return f"--{name}" if name in _FLAGS else f"--set.{name}"


def _number(value: Any) -> bool:  # noqa: ANN401
    return type(value) in (int, float)


def _part(value: Any) -> bool:  # noqa: ANN401
    return _number(value) and 0 <= value <= 1


def _seeds(value: str | int) -> tuple[int, ...]:
    return tuple(parse_seeds(value))
