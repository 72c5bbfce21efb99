"""Corrected-free: mined targets are used through their corrected embeddings and not encoded."""

from dataclasses import replace

from unstale.miners.corrected import STRATEGY as CORRECTED
from unstale.miners.strategy import NegativeCounts

STRATEGY = replace(
    CORRECTED,
    name="corrected-free",
    negatives_from="the cached embeddings seen through the corrector; mined targets are used "
    "through their corrected embeddings, without running the encoder on them",
    negatives=NegativeCounts(hard=0, uniform=0, free=4),
    rag=False,
    tone="variant",
)
