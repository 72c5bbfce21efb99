"""How a setting is declared: its default, the values it may have, and who may see or change it."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from unstale.errors import InputError

S = TypeVar("S")
MOST_SEED = 2**32 - 1  # that all random generators take


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
        changeable: Whether a resumed run may have another value: its results do not depend on it.
        local: Whether it concerns one machine only, so that reports leave it out.
    """
    rules = {"least": least, "above": above, "most": most}
    return field(default=default, metadata=rules | {"changeable": changeable, "local": local})


def taken_from(kind: type[S], other: Any) -> S:  # noqa: ANN401 - has the settings of `kind`, and more
    """Return the settings of one kind out of an object that has them all."""
    return kind(**{f.name: getattr(other, f.name) for f in fields(kind)})  # type: ignore[arg-type]


def changed(settings: S, changes: Mapping[str, Any], owner: str | None = None) -> S:
    """Replace some settings by name; an unknown name is refused with the nearest known one.

    None leaves a setting as it is, unless None is its own default. The message says that the
    `owner` has no such setting; by default it is the class.
    """
    known = {f.name: f.default for f in fields(settings)}  # type: ignore[arg-type]
    for name in changes:
        if name not in known:
            close = get_close_matches(name, known, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            for section, value in vars(settings).items():
                if is_dataclass(value) and name in vars(value):
                    meant = f"; use {section}={type(value).__name__}({name}=...)"
            raise InputError(f"{owner or type(settings).__name__} has no setting {name!r}{meant}")
    given = {k: v for k, v in changes.items() if v is not None or known[k] is None}
    return replace(settings, **given)  # type: ignore[type-var]


def flag(name: str) -> str:
    """Return the command line's name of a setting.

    Example:
        >>> flag("batch_size")
        '--batch-size'
    """
    return f"--{name.replace('_', '-')}"


def check_bounds(
    settings: Any,  # noqa: ANN401 - any dataclass of settings
    named: Callable[[str], str] = flag,
) -> None:
    """Refuse a setting outside the values that its declaration allows."""
    hints = get_type_hints(type(settings))
    for declared in fields(settings):
        value, hint = getattr(settings, declared.name), hints[declared.name]
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        if choices and value not in choices:
            known = ", ".join(map(str, choices))
            raise InputError(f"{named(declared.name)} must be one of {known}, got {value!r}")
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, str) and _broken(declared.metadata, math.nan):
                raise InputError(f"{named(declared.name)} must be a number, got {one!r}")
            if isinstance(one, bool) or not isinstance(one, int | float):
                continue
            if isinstance(one, float) and not math.isfinite(one):
                raise InputError(f"{named(declared.name)} must be a finite number, got {one}")
            if broken := _broken(declared.metadata, one):
                raise InputError(f"{named(declared.name)} must be {broken}, got {one}")


def parse_seeds(text: str | int) -> list[int]:
    """Read seeds parted by commas.

    Example:
        >>> parse_seeds("0,1,2"), parse_seeds(7)
        ([0, 1, 2], [7])
    """
    words = [word.strip() for word in str(text).split(",")]
    good = all(re.fullmatch("[0-9]+", word) and int(word) <= MOST_SEED for word in words)
    if not good or len(set(map(int, words))) != len(words):
        rule = f"different whole numbers up to {MOST_SEED}"
        raise InputError(f"seeds must be {rule}, not {text!r}")
    return [int(word) for word in words]


def _broken(rules: Mapping[str, Any], value: int | float) -> str | None:
    """Return the rule that a number breaks, in words."""
    least, above, most = (rules.get(name) for name in ("least", "above", "most"))
    if least is not None and not value >= least:
        return f"at least {least}"
    if above is not None and not value > above:
        return f"above {above}"
    if most is not None and not value <= most:
        return f"at most {most}"
    return None
