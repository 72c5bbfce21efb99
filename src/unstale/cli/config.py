"""The flags of a run, as its folder keeps them: config.yaml, in the form that `--config` reads."""

import logging
from functools import cache
from pathlib import Path
from typing import Any, final

import yaml

from unstale.budget import FLAGS, read_small
from unstale.cli.flags import flag_values, marked_flags
from unstale.data.names import split_name
from unstale.declare import flag
from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.migration.stores.address import Address, is_store

CONFIG = "config.yaml"
# What a user agrees to by typing it. A file may come from anybody, so it cannot agree.
CONSENT = {"trust_remote_code", "overwrite"}
_LOG = logging.getLogger(__name__)
_MARK = "# unstale "  # its first words: the mark of a folder that is ours to replace

# What the parser lets through of tags and numbers that make no sense.
_ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
# Flags that name what a command reads: paths, or names.
_PATHS = "data corpus model old_model retriever reader cross_encoder buffer vectors ids run".split()


def save_config(folder: Path, command: str, chosen: Any) -> None:  # noqa: ANN401 - a dataclass
    """Write the resolved flags.

    Resuming with other flags than a run began with would mix two experiments: it is refused.
    """
    flags = flag_values(chosen)
    if (flags.get("resume") or flags.get("shard")) and (folder / CONFIG).exists():
        changed_flags(folder, chosen)
    with atomic_file(folder / CONFIG) as temporary:
        values = yaml.safe_dump(_values(chosen), sort_keys=False)
        temporary.write_text(f"{_MARK}{command}\n{values}", "utf-8")


def written_by(folder: Path, command: str) -> bool:
    """Tell whether a command of unstale wrote a folder; "" stands for any."""
    config = folder / CONFIG
    if not config.is_file():
        return False
    with config.open("rb") as file:
        return file.readline(200).startswith(f"{_MARK}{command}".encode())


def changed_flags(folder: Path, chosen: Any) -> set[str]:  # noqa: ANN401 - a dataclass
    """Name the flags that are not those a run began with; refuse what its results depend on."""
    values, before = _values(chosen), _absolute(read_config(folder))
    changed = {key for key in values if key in before and before[key] != values[key]}
    for key in sorted(changed - marked_flags(type(chosen), "changeable")):
        raise InputError(
            f"cannot resume {folder} with {flag(key)} {values[key]}: it began with {before[key]}"
        )
    return changed


def read_config(folder: Path) -> dict[str, Any]:
    """Read the flags that a command was given, from its output folder."""
    return read_flags(folder / CONFIG)


@final
class _Flags(yaml.SafeLoader):
    """Read YAML without aliases: a few of them, nested, stand for more than any memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401 - yaml has no types
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not read", mark)
        return super().compose_node(parent, index)


def read_flags(path: Path) -> dict[str, Any]:
    """Read a YAML file of flags, without those that only a command line can give."""
    try:
        values = yaml.load(read_small(path, FLAGS), _Flags)  # noqa: S506 - a safe one, and more
    except OSError as error:
        raise InputError(f"cannot read the flags in {path} ({error.strerror})") from None
    except InputError:
        raise
    except (yaml.YAMLError, *_ODD) as error:
        raise InputError(f"{path} is not YAML ({' '.join(str(error).split())[:300]})") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold flags and their values, `steps: 300`")
    for key in values:
        if not isinstance(key, str):
            raise InputError(f"{path}: a flag has a name, not {key!r}")
    stripped, agreed = without_consent(values)
    for name in sorted(agreed):
        _say_ignored(path, name)
    return stripped


@cache
def _say_ignored(path: Path, name: str) -> None:
    """Warn, once, that a file cannot give a consent."""
    said = "a file cannot agree to it; if you do, repeat the command with this flag"
    _LOG.warning("%s: %s is ignored: %s", path, flag(name), said)


def without_consent(value: Any) -> tuple[Any, set[str]]:  # noqa: ANN401 - whatever YAML can hold
    """Return flags without those of `CONSENT`, at any depth, and the names of those it gave.

    Example:
        >>> without_consent({"steps": 3, "overwrite": False, "train": {"trust_remote_code": True}})
        ({'steps': 3, 'train': {}}, {'trust_remote_code'})
    """
    agreed: set[str] = set()

    def strip(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, list | tuple):
            return [strip(one) for one in value]
        if not isinstance(value, dict):
            return value
        names = {key: str(key).rpartition(".")[2].replace("-", "_") for key in value}
        agreed.update(name for key, name in names.items() if name in CONSENT and value[key])
        return {key: strip(own) for key, own in value.items() if names[key] not in CONSENT}

    return strip(value), agreed


def paths_read(chosen: Any) -> list[str]:  # noqa: ANN401 - a dataclass
    """List what a command reads, by its flags: paths, or names."""
    return [str(v) for name, v in flag_values(chosen).items() if name in _PATHS and v]


def place_of(name: str) -> Path:
    """Return the path in a name of data, a model, a buffer or a database."""
    return Path(_place(name)[1])


def _place(name: str) -> tuple[int, str]:
    """Return where in a name its path begins, and the path as it is written."""
    if is_store(name):
        address = Address.read(name)
        return len(address.kind) + 1, address.place
    form, place, _ = split_name(name)
    return len(form) + 1 if form else 0, place


def _values(chosen: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    flags = {k: v for k, v in flag_values(chosen).items() if k not in ("resume", "shard")}
    return _absolute(without_consent(flags)[0])  # with lists for tuples, as YAML has


def _absolute(values: dict[str, Any]) -> dict[str, Any]:
    """Make paths absolute, so that a run can be resumed from any folder."""
    return {k: _absolute_name(v) if k in _PATHS else v for k, v in values.items()}


def _absolute_name(name: Any) -> Any:  # noqa: ANN401 - a name, or what YAML held
    """Make the path in a name absolute, if there is one: `csv:pairs.csv:query=title`, too."""
    start, place = _place(name) if isinstance(name, str) else (0, "")
    if not place or not Path(place).exists():
        return name
    return f"{name[:start]}{Path(place).resolve()}{name[start + len(place) :]}"
