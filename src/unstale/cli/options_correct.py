"""The flags of `unstale correct`."""

from dataclasses import dataclass

from unstale.cli.options import EncoderFlags, OutputFlags
from unstale.migration.settings import MigrateSettings


@dataclass(frozen=True)
class CorrectFlags(OutputFlags, EncoderFlags, MigrateSettings):
    """Bring old vectors up to date with a new encoder by embedding only a sample.

    It writes the new vectors in the format of the old ones, results.json and curve.svg.

    Args:
        vectors: The old vectors, never modified: .npy, .safetensors, .parquet, .faiss, or a buffer
            that `unstale embed` wrote. Row by row they belong to the targets of the data.
        data: The texts, and queries for the validation, in any format that unstale reads; a BEIR
            folder may lack qrels, or queries.
        resume: Resume an embedding that was interrupted.
    """

    vectors: str = ""
    data: str = "docstrings"
    resume: bool = False
