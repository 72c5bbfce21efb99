"""Every format that can be read and written: one file each, one small protocol."""

from importlib import import_module

from unstale.data.formats.format import Format
from unstale.errors import InputError

# name: where it is, in the order in which they are tried; modules load only when they are needed.
FORMATS: dict[str, str] = {
    "beir": "unstale.data.formats.beir:FORMAT",
    "msmarco": "unstale.data.formats.msmarco:FORMAT",
    "hf": "unstale.data.formats.hf:FORMAT",
    "dpr": "unstale.data.formats.toolkits:DPR",
    "fid": "unstale.data.formats.toolkits:FID",
    "tevatron": "unstale.data.formats.toolkits:TEVATRON",
    "tevatron-inline": "unstale.data.formats.toolkits:TEVATRON_INLINE",
    "flagembedding": "unstale.data.formats.toolkits:FLAG",
    "csv": "unstale.data.formats.tables:CSV",
    "jsonl": "unstale.data.formats.tables:JSONL",
    "parquet": "unstale.data.formats.tables:PARQUET",
    "ir_datasets": "unstale.data.formats.ir_datasets:FORMAT",
}


def find_format(name: str) -> Format:
    """Look a format up, or list those there are."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; choose from {', '.join(FORMATS)}")
    module, attribute = FORMATS[name].split(":")
    found: Format = getattr(import_module(module), attribute)
    return found
