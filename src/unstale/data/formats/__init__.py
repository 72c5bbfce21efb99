"""Every format that can be read and written: one file each, one small protocol."""

from unstale.data.formats import beir, hf, ir_datasets, msmarco, tables, toolkits
from unstale.data.formats.format import Format
from unstale.errors import InputError

_ORDER = (  # in which they are tried
    beir.FORMAT, msmarco.FORMAT, hf.FORMAT, toolkits.DPR, toolkits.FID, toolkits.TEVATRON,
    toolkits.TEVATRON_INLINE, toolkits.FLAG, tables.CSV, tables.JSONL, tables.PARQUET,
    ir_datasets.FORMAT,
)  # fmt: skip
FORMATS: dict[str, Format] = {form.name: form for form in _ORDER}


def find_format(name: str) -> Format:
    """Look a format up, or list those there are."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; choose from {', '.join(FORMATS)}")
    return FORMATS[name]
