"""The flags about data: what is read, converted and mined."""

from dataclasses import dataclass

from unstale.cli.options import Output


@dataclass
class Convert(Output):
    """Convert. What the new format has no place for is said.

    Args:
        data: What to convert: [FORMAT:]PATH[:ROLE=COLUMN,...], a name on the hub, or a built-in
            set.
        to: The format to write: beir, msmarco, hf, dpr, fid, tevatron, tevatron-inline,
            flagembedding, csv, jsonl or parquet.
    """

    data: str = ""
    to: str = "beir"
