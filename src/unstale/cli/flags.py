"""From a dataclass of options to command-line flags, and back: `batch_size` is `--batch-size`."""

from argparse import SUPPRESS
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache
from typing import Any, TypeGuard, get_type_hints

import docstring_parser
from jsonargparse import ActionYesNo, ArgumentParser

from unstale import settings as sections
from unstale.declare import flag
from unstale.filters import Filters

# What a user looks for first, before the groups.
FIRST = (
    "question query data corpus model retriever reader output strategy strategies seeds steps "
    "epochs batch_size"
).split()
GROUPS = (  # in this order; the title is the first word of a section's docstring
    sections.RunSettings,
    sections.LengthSettings,
    sections.NegativeSettings,
    sections.CorrectorSettings,
    sections.SearchSettings,
    sections.FilterSettings,
    sections.ScheduleSettings,
    sections.RefreshSettings,
    sections.EvaluationSettings,
    sections.HoldoutSettings,
    sections.CheckpointSettings,
)


def add_flags(parser: ArgumentParser, kind: type, more_help: Mapping[str, str]) -> None:
    """Add a flag for each field; a field without a default is a positional argument.

    Types come from the annotations and help texts from the `Args` of the docstrings, those of
    parent classes included, and `more_help` by field. What matters most comes first, the rest by
    section.
    """
    groups: dict[str, Any] = {}
    by_name = {f.name: f for f in fields(kind)}
    for name in [name for name in FIRST if name in by_name]:
        _add(parser, by_name.pop(name), kind, more_help.get(name, ""))
    for home in [*GROUPS, *(h for h in reversed(kind.__mro__) if h not in GROUPS)]:
        for declared in [f for f in by_name.values() if _home(kind, f.name) is home]:
            title, _, about = (home.__doc__ or "").partition("\n")[0].partition(": ")
            if title not in groups:
                alone = home is kind or not about
                groups[title] = parser if alone else parser.add_argument_group(title.lower())
            for inner, owner in _flat(declared, kind):
                refused = inner.name in declared.metadata.get("refused", ())  # and told why
                _add(groups[title], inner, owner, hidden=refused)


_hints = cache(get_type_hints)  # of a class, whose fields all ask for them


def _add(
    group: Any,  # noqa: ANN401 - a parser, or a group of one
    declared: Field[Any],
    kind: type,
    more_help: str = "",
    *,
    hidden: bool = False,
) -> None:
    name, hint = declared.name, _hints(kind)[declared.name]
    # A setting that training has, too, need not be explained twice.
    text = (helps(kind).get(name) or helps(sections.TrainSections)[name]) + more_help
    text = SUPPRESS if hidden else text
    factory = declared.default_factory
    default = declared.default if factory is MISSING else factory()
    if default is MISSING:
        group.add_argument(name, type=hint, help=text)
    elif hint is bool:
        action = ActionYesNo(yes_prefix="", no_prefix="no-")
        group.add_argument(flag(name), action=action, default=default, help=text)
    else:
        group.add_argument(flag(name), type=hint, default=default, help=text)


def _flat(declared: Field[Any], kind: type) -> Iterator[tuple[Field[Any], type]]:
    """Yield a field and its class, or those of a section that is one field."""
    hint = _hints(kind)[declared.name]
    if _is_section(hint):
        yield from ((inner, hint) for inner in fields(hint))
    else:
        yield declared, kind


def instantiate(kind: type, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a `kind`
    """Make the options out of the flags' values."""
    hints = {f.name: _hints(kind)[f.name] for f in fields(kind)}
    inner = {n: instantiate(h, values) for n, h in hints.items() if _is_section(h)}
    return kind(**{name: values[name] for name in hints if name not in inner}, **inner)


def flag_values(chosen: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass of options
    """Return the value of every flag by its name, as a config file holds them."""
    values: dict[str, Any] = {}
    for declared in fields(chosen):
        value = getattr(chosen, declared.name)
        values |= asdict(value) if isinstance(value, Filters) else {declared.name: value}
    return values


def marked_flags(kind: type, mark: str) -> set[str]:
    """Name the flags that are declared `changeable`, or `local`."""
    return {f.name for f in fields(kind) if f.metadata.get(mark)}


def known_flags(kind: type) -> list[str]:
    """List the names of all flags, without their dashes."""
    every = [(f, inner.name) for f in fields(kind) for inner, _ in _flat(f, kind)]
    return [flag(name)[2:] for f, name in every if name not in f.metadata.get("refused", ())]


def _is_section(hint: object) -> TypeGuard[type]:
    return isinstance(hint, type) and is_dataclass(hint)


def _home(kind: type, name: str) -> type:
    """Find the class that first declares a field."""
    return next(c for c in reversed(kind.__mro__) if name in vars(c).get("__annotations__", {}))


@cache
def helps(kind: type) -> dict[str, str]:
    """Return the sentence about each field, from the `Args` of the class and its parents."""
    found: dict[str, str] = {}
    for parent in reversed(kind.__mro__[:-1]):
        parsed = docstring_parser.parse(parent.__doc__ or "")
        found |= {p.arg_name: " ".join((p.description or "").split()) for p in parsed.params}
    return found


def about(kind: type) -> tuple[str, str]:
    """Return what a command does, in a sentence, and what else its docstring says of it."""
    parsed = docstring_parser.parse(kind.__doc__ or "")
    return parsed.short_description or "", " ".join((parsed.long_description or "").split())
