"""The flags about data: what is read, converted and mined."""

from dataclasses import dataclass

from unstale.cli.options import Encoder, Output
from unstale.cli.options_filters import Filtering


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Mine(Output, Filtering, Encoder):
    """Mine. Every split and the whole corpus are written, the mined negatives with one split.

    Args:
        data: Data in any format that unstale reads, a hub name, or a built-in set; default with
            --run: the data of the run.
        split: Whose queries to mine for.
        run: Mine in the corrected view of a training run, whose targets are embedded already; the
            model is the run's. With --model RUN/model they are embedded anew.
        hard_negatives: How many to mine for each query.
        format: The format to write; see `unstale convert`. csv, jsonl, parquet and hf have a row
            of query, positive, negative_1, ... for each pair.
        buffer: Reuse a corpus embedded by `unstale embed`, if model and corpus are the same.
    """

    data: str = ""
    split: str = "train"
    run: str | None = None
    hard_negatives: int = 4
    format: str = "jsonl"
    buffer: str | None = None
