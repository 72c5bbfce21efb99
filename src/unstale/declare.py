"""How a setting is declared: its default, the values it may have, and who may see or change it."""

from collections.abc import Mapping
from dataclasses import field, fields, replace
from difflib import get_close_matches
from typing import Any, TypeVar

from unstale.errors import InputError

S = TypeVar("S")


def setting(
    default: Any,  # noqa: ANN401 - of any type; so is the field
    *,
    least: int | float | None = None,
    above: int | float | None = None,
    most: int | float | None = None,
    changeable: bool = False,
    local: bool = False,
) -> Any:  # noqa: ANN401
    """Declare a setting's default and the values that it may have.

    Args:
        default: The default value.
        least: The smallest value allowed.
        above: A bound that the value must exceed.
        most: The largest value allowed.
        changeable: Whether a resumed run may have another value: its results do not depend on it.
        local: Whether it concerns one machine only, so that reports leave it out.
    """
    rules = {"least": least, "above": above, "most": most}
    return field(default=default, metadata=rules | {"changeable": changeable, "local": local})


def taken_from(kind: type[S], other: Any) -> S:  # noqa: ANN401 - has the settings of `kind`, and more
    """Return the settings of one kind out of an object that has them all."""
    return kind(**{f.name: getattr(other, f.name) for f in fields(kind)})  # type: ignore[arg-type]


def changed(settings: S, changes: Mapping[str, Any]) -> S:
    """Replace some settings by name; an unknown name is refused with the nearest known one."""
    known = [f.name for f in fields(settings)]  # type: ignore[arg-type]
    for name in changes:
        if name not in known:
            close = get_close_matches(name, known, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise InputError(f"{type(settings).__name__} has no setting {name!r}{meant}")
    return replace(settings, **changes)  # type: ignore[type-var]


def check_bounds(settings: Any) -> None:  # noqa: ANN401 - any dataclass of settings
    """Refuse a setting outside the values that its declaration allows."""
    for declared in fields(settings):
        value, rules = getattr(settings, declared.name), declared.metadata
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        for rule, word in (("least", "at least"), ("above", "above"), ("most", "at most")):
            bound = rules.get(rule)
            broken = (
                bound is not None
                and {
                    "least": not value >= bound,
                    "above": not value > bound,
                    "most": not value <= bound,
                }[rule]
            )
            if broken:
                raise InputError(f"{flag(declared.name)} must be {word} {bound}, got {value}")


def flag(name: str) -> str:
    """Return the command line's name of a setting.

    Example:
        >>> flag("batch_size")
        '--batch-size'
    """
    return f"--{name.replace('_', '-')}"
