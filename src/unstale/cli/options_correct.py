"""The flags of `unstale correct`."""

from dataclasses import dataclass
from typing import Literal

from unstale.cli.options import Encoder, Output


@dataclass(frozen=True)
class Correct(Output, Encoder):
    """Correct. Writes the new vectors in the old ones' format, results.json, curve.svg, a verdict.

    Args:
        vectors: The old vectors, never modified: .npy, .safetensors, .parquet, .faiss, or a buffer
            that `unstale embed` wrote. Row by row they belong to the targets of the data.
        data: The texts, and queries for the validation, in any format that unstale reads; a BEIR
            folder may lack qrels, or queries.
        run: Take corrector, encoder, data and stale buffer of a training run; the sample then
            only validates.
        fraction: Part of the targets to embed with the new encoder, a fifth of it held out;
            default: 0.05.
        count: The same as a number of targets.
        seconds: The same as a time to spend on embedding.
        sampling: Draw the sample uniformly; alike from all k-means cells of the old vectors
            (coverage, needs faiss); or half of it from the neighbourhoods of queries that do not
            validate (queries). Held-out targets are always uniform.
        re_embed: Embed the targets that matter most, too, and correct the rest: a part of all
            targets if below 1, otherwise a number.
        re_embed_by: Which those are: retrieved, most often and highest by queries that do not
            validate; worst, those that the corrector predicts least well.
        method: mlp, a residual network around the least-squares map; linear, that map alone;
            procrustes, the best rotation; auto, the network where it helps unseen targets.
        corrector_hidden: Width of the network's hidden layer.
        loss: mse, or ce with queries that do not validate (plus mse).
        scale: The paper's beta, for ce.
        keep_fresh: Write the fresh vectors of the sampled targets, not their corrected ones.
        k: How many neighbours the overlap is about.
        split: The split whose queries validate; by default test, or whichever there is.
        queries: The most queries to validate on, and to fit to or choose by.
        seed: Of sample and network.
        resume: Go on with an embedding that was interrupted.
    """

    vectors: str = ""
    data: str = "docstrings"
    run: str | None = None
    fraction: float | None = None
    count: int | None = None
    seconds: float | None = None
    sampling: Literal["uniform", "coverage", "queries"] = "uniform"
    re_embed: float = 0.0
    re_embed_by: Literal["retrieved", "worst"] = "retrieved"
    method: Literal["auto", "mlp", "linear", "procrustes"] = "auto"
    corrector_hidden: int = 1536
    loss: Literal["mse", "ce"] = "mse"
    scale: float = 20.0
    keep_fresh: bool = True
    k: int = 10
    split: str | None = None
    queries: int = 500
    seed: int = 0
    resume: bool = False
