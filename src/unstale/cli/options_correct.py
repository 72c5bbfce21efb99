"""The flags of `unstale correct`."""

from dataclasses import dataclass

from unstale.cli.options import Encoder, Output
from unstale.migration.settings import MigrateSettings


@dataclass(frozen=True)
class Correct(Output, Encoder, MigrateSettings):
    """Correct. Writes the new vectors in the old ones' format, results.json, curve.svg, a verdict.

    Args:
        vectors: The old vectors, never modified: .npy, .safetensors, .parquet, .faiss, or a buffer
            that `unstale embed` wrote. Row by row they belong to the targets of the data.
        data: The texts, and queries for the validation, in any format that unstale reads; a BEIR
            folder may lack qrels, or queries.
        run: Take corrector, encoder, data and stale buffer of a training run; the sample then
            only validates.
        resume: Resume an embedding that was interrupted.
    """

    vectors: str = ""
    data: str = "docstrings"
    run: str | None = None
    resume: bool = False
