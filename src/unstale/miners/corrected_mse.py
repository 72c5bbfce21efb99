"""Corrected-mse: the corrector is trained by mean-squared error instead of cross-entropy."""

from dataclasses import replace

from unstale.miners.corrected import STRATEGY as CORRECTED

STRATEGY = replace(
    CORRECTED,
    name="corrected-mse",
    negatives_from="the same as corrected, with the corrector trained by mean-squared error",
    reads=tuple(n for n in CORRECTED.reads if n not in ("corrector_loss", "corrector_anchor")),
    fixed={"corrector_loss": "mse"},
    rag=False,
    planned=False,
    tone="variant",
)
