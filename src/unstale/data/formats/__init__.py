"""Every format that can be read and written: one file each, one small protocol."""

from importlib import import_module

from unstale.data.formats.format import Format
from unstale.data.names import FORMAT_NAMES
from unstale.errors import InputError


def _load(place: str) -> Format:
    module, _, name = place.partition(".")
    return getattr(import_module(f"unstale.data.formats.{module}"), name)


FORMATS: dict[str, Format] = {name: _load(place) for name, place in FORMAT_NAMES.items()}


def find_format(name: str) -> Format:
    """Look a format up, or list those there are."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; choose from {', '.join(FORMATS)}")
    return FORMATS[name]
